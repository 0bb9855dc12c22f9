package rollout_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"pgregory.net/rapid"
)

// stageOption sets stages and bakes: "stage 1 30m", "stage 50% 10m ask", "stages 0" and "bake 1h".
func (s *story) stageOption(word, value string) (err error) {
	p := &s.c.spec.UpdatePolicy
	switch word {
	case "stages":
		p.Stages = nil
		return nil
	case "bake":
		length, err := time.ParseDuration(value)
		p.Bake = group.Duration(length)
		return err
	}
	f := strings.Fields(value)
	if len(f) < 2 {
		return errors.New("stage N TIME [ask]")
	}
	one := group.Stage{}
	if share, ok := strings.CutSuffix(f[0], "%"); ok {
		one.Percent, err = strconv.Atoi(share)
	} else {
		one.Slots, err = strconv.Atoi(f[0])
	}
	length, notLength := time.ParseDuration(f[1])
	one.Bake = group.Duration(length)
	if len(f) > 2 {
		one.Promote = f[2]
	}
	p.Stages = append(p.Stages, one)
	s.c.spec.Normalize()
	return errors.Join(err, notLength, group.Validate(s.c.spec))
}

// staged checks R94 for a step of the rollout that begins: with it, no more Slots have the target than the open stage
// lets move. A member that never worked at its Revision passes.
func (k *checker) staged(a rollout.Action, op operation.Operation, rec rollout.Records) {
	stable, r, stages := rec.Status.Stable, k.c.plan.Rollout, k.c.spec.UpdatePolicy.Stages
	if op.Kind != operation.Update || op.Actor != operation.ActorRollout || a.Extra || a.Class == rollout.ClassBroken {
		return
	}
	if stable == "" || stable == op.To || op.To != k.c.spec.Revision() || r == nil || r.StagesPassed >= len(stages) {
		return
	}
	limit, there := stages[r.StagesPassed].Of(k.c.spec.Replicas), 1
	for _, one := range rec.Slots {
		if one.Slot != op.Slot && !one.Extra && k.c.spec.HasOrdinal(one.Ordinal) && one.Assigned == op.To && k.c.excludes[one.Slot] == nil {
			there++
		}
	}
	if there > limit {
		k.broke("R94: UPDATE of %s begins, the slot %d of the target, and stage %d lets %d move", op.Slot, there, r.StagesPassed+1, limit)
	}
}

// baked checks R91: stable moves at the end of the last bake, as it was recorded before.
func (k *checker) baked(spec group.Spec, rec rollout.Records, now time.Time, p rollout.Plan) {
	was, is, r := rec.Status.Stable, p.Status.Stable, rec.Rollout
	if was == "" || was == is || spec.UpdatePolicy.Bake == 0 || r != nil && r.State == operation.Complete {
		return
	}
	if r == nil || r.State != operation.BakingState || now.Sub(r.BakeSince) < spec.UpdatePolicy.Bake.D() {
		k.broke("R91: stable moves to %s, and the bake is not over: %+v", k.w.name(is), r)
	}
}

// drawStages gives some runs of the property test stages and bakes.
func (s *story) drawStages(t *rapid.T) {
	for _, line := range []string{"stage 1 1m", "stage 2 30s ask", "bake 1m"} {
		if rapid.IntRange(0, 3).Draw(t, "stage") == 0 {
			s.one(t, "operator sets "+line)
		}
	}
}

// promote is the line of an operator who promotes the open stage.
func (s *story) promote() string {
	r := s.c.plan.Rollout
	if r == nil {
		return "operator promotes stage 1"
	}
	return fmt.Sprintf("operator promotes stage %d", r.StagesPassed+1)
}
