package rollout_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// checker holds every step of every story to the invariants of a rollout, by the true state and not by the known
// state:
//
//	R5   the Boot of each available member of a complete rollout proved its assigned Revision
//	I1   at most max_unavailable working members are taken away
//	I2   no call takes a voter that the rest needs for its majority
//	I3   a leader is not stopped while another member could have taken over, unless its workload hands nothing over
//	I6   a failed rollout takes no further working member
//	I16  at most one call of a Slot is outstanding
//	I17  an Operation has each of its effects at most once
//	I18  the call stands in the record before it is made
//	R139 only its drain begins for a drained Slot, and no step takes a protected
//	     member away while it works
//	placement  a hard rule is never broken, and a node that does not answer gets no CVM
//	R147 only a group with `stopped = true` is stopped, and the leader last
//	R98  each limited step has a place at the limits of the cluster
//	R158 no voluntary step begins while a group that the group is after has not finished
//	R150 nothing begins, and no first call is made, behind a closed gate
//	R94  a stage lets no more Slots move than it says
//	R91  stable moves only after the last bake
//	I22  the same input in another order gives the same plan, and a held Action says why
type checker struct {
	w     *world
	c     *coordinator
	fails func(format string, args ...any)
	// taken are members that worked when a call took them, until they work again.
	taken   map[string]bool
	effects map[string]int
	begins  []string
	calls   []string
	// always: the checker reorders the input in every pass, because its usual interval would leave this moment out.
	always bool
}

func (k *checker) broke(format string, args ...any) { k.fails("BROKEN "+format, args...) }

// settle forgets the members that work again.
func (k *checker) settle() {
	for slot := range k.taken {
		if c := k.w.of(slot); c != nil && k.w.serves(c) && c.boot != "" && !k.w.outstanding(slot) {
			delete(k.taken, slot)
		}
	}
}

// plan checks the properties of every plan, for any decision.
func (k *checker) plan(spec group.Spec, rec rollout.Records, obs rollout.Observation, now time.Time, t rollout.Timing, p rollout.Plan) {
	for _, a := range p.Actions {
		if a.Execute == (len(a.Holds) > 0) {
			k.broke("I22: %s %s: execute %t with %d holds", a.Kind, a.Slot, a.Execute, len(a.Holds))
		}
	}
	for _, r := range p.Slots {
		i := slices.IndexFunc(p.Status.Instances, func(one group.InstanceStatus) bool { return one.Slot == r.Slot })
		if i < 0 || p.Rollout.State != operation.Complete {
			continue
		}
		one := p.Status.Instances[i]
		if rests := one.State == group.SlotAvailable && one.Operation == ""; rests && r.Assigned != "" && r.Assigned != one.Observed {
			k.broke("R5: %s runs %s and is assigned %s", r.Slot, k.w.name(one.Observed), k.w.name(r.Assigned))
		}
	}
	k.baked(spec, rec, now, p)
	if now.Second()%5 != 0 && !k.always {
		return // it takes as long as everything else
	}
	slices.Reverse(obs.Nodes)
	slices.Reverse(obs.Others)
	slices.Reverse(obs.Slots)
	slices.Reverse(rec.Slots)
	slices.Reverse(rec.Operations)
	turned := rollout.Decide(spec, rec, obs, now, t)
	slices.Reverse(obs.Slots)
	slices.Reverse(rec.Slots)
	slices.Reverse(rec.Operations)
	if !sameRecord(p, turned) {
		a, _ := json.MarshalIndent(p, "", " ")
		b, _ := json.MarshalIndent(turned, "", " ")
		k.broke("I22: the plan depends on the order of its input\n%s", diff(string(a), string(b)))
	}
}

// begun checks an Operation while it is recorded.
func (k *checker) begun(a rollout.Action, op operation.Operation, rec rollout.Records) {
	k.begins = append(k.begins, fmt.Sprintf("%s %s", op.Kind, op.Slot))
	k.gated("the begin", op)
	k.inWindow(a, op)
	k.ticketed(op)
	k.staged(a, op, rec)
	k.inTurn(op)
	c := k.w.of(op.Slot)
	failed := func(r *operation.Rollout) bool {
		return r != nil && r.ID == op.Rollout && r.State == operation.FailedState
	}
	stands := func(overrides map[string]*rollout.Override) bool {
		m := overrides[op.Slot]
		return m != nil && (m.Until.IsZero() || k.c.clock().Before(m.Until))
	}
	// A protection promises that a down member is restarted, and keeps the drain itself.
	repair := op.Kind == operation.Restart && op.Before.Unavailable && stands(k.c.protects)
	switch {
	case k.c.deleting != nil || op.Kind == operation.Create && !stands(k.c.drains) || repair:
	case op.Kind == operation.Stop && !stands(k.c.protects):
	case stands(k.c.drains) && op.Kind != operation.Drain:
		k.broke("R139: %s begins of %s, which is drained", op.Kind, op.Slot)
	case op.Kind == operation.Restart && op.Before.Unavailable: // the member was down in the observation
	case stands(k.c.protects) && c != nil && k.w.works(c):
		k.broke("R139: %s begins of %s, which is protected and works", op.Kind, op.Slot)
	}
	if out := k.c.excludes[op.Slot]; stands(k.c.excludes) && k.c.deleting == nil {
		if out.Excludes.Rollout && op.Kind == operation.Update {
			k.broke("R139: UPDATE begins of %s, which is excluded from the rollout", op.Slot)
		}
		if out.Excludes.Healing && op.Actor == operation.ActorHealing {
			k.broke("R139: %s heals %s, which is excluded from healing", op.Kind, op.Slot)
		}
	}
	if op.Kind == operation.Update && c != nil && k.w.works(c) && failed(rec.Rollout) && failed(k.c.plan.Rollout) && a.Class != rollout.ClassMarked {
		k.broke("I6: the rollout failed, and %s of %s, which works, begins", op.Kind, op.Slot)
	}
}

// called checks a call that is about to be made.
func (k *checker) called(op operation.Operation, e operation.Effect) {
	k.calls = append(k.calls, fmt.Sprintf("%s %s", e.Call, op.Slot))
	if e.Number == 1 {
		k.gated("the first call", op)
	}
	stored := k.c.store.operations[op.ID]
	if stored.Phase != operation.Acting || stored.Call.Number != e.Number {
		k.broke("I18: call %d for %s is made while the record says %s, %d calls", e.Number, op.Slot, stored.Phase, stored.Call.Number)
	}
	if k.w.outstanding(op.Slot) {
		k.broke("I16: a call for %s is made while an earlier one is outstanding", op.Slot)
	}
	c := k.w.of(op.Slot)
	if k.c.deleting != nil {
		return // there is no service left to protect
	}
	if e.Call == operation.PartCreate || c == nil || c.uuid != e.VMUUID || !k.w.serves(c) || k.taken[op.Slot] {
		return
	}
	if op.Kind == operation.Stop {
		k.stops(op.Slot)
		return
	}
	if op.Request.ID != "" && group.HasVoters(k.c.spec) && k.w.leader == "" {
		return // R45: below quorum no member serves, and an operator named a member outside the quorum
	}
	if !overrides(op, rollout.HoldMaxUnavailable) {
		k.budget(op.Slot)
	}
	k.quorum(op.Slot, op.Kind)
	k.leader(op.Slot)
	k.taken[op.Slot] = true
}

// stops checks the stop of a working member: the spec wants it, and no other member serves when the leader stops.
func (k *checker) stops(slot string) {
	if !k.c.spec.Stopped {
		k.broke("R147: %s is stopped, and the spec has stopped = false", slot)
	}
	for _, other := range k.c.spec.Members() {
		if c := k.w.of(other); other != slot && k.w.leader == slot && c != nil && k.w.serves(c) && !k.w.outstanding(other) {
			k.broke("R147: %s leads and is stopped while %s serves", slot, other)
		}
	}
}

func (k *checker) budget(slot string) {
	var away []string
	for _, other := range k.c.spec.Members() {
		if c := k.w.of(other); other != slot && c != nil && (k.taken[other] || !k.w.serves(c)) {
			away = append(away, other)
		}
	}
	spare := 0
	for slot, r := range k.c.store.slots {
		if c := k.w.of(slot); r.Extra && c != nil && k.w.serves(c) && !k.taken[slot] {
			spare++
		}
	}
	gone := len(away) + 1
	if r := k.c.store.slots[slot]; !k.c.spec.HasOrdinal(r.Ordinal) {
		spare-- // the extra member itself goes, or the member goes for good: the others must suffice
		if len(away) == 0 {
			return
		}
		if r.Extra {
			gone-- // no desired member goes with it
		}
	}
	if limit := group.MaxUnavailable(k.c.spec) + spare; gone > limit {
		k.broke("I1: %s is taken while %s away, max_unavailable is %d", slot, areOf(away), limit)
	}
}

func (k *checker) quorum(slot string, kind operation.Kind) {
	if !group.HasVoters(k.c.spec) || !slices.Contains(k.w.voters, slot) {
		return
	}
	var left []string
	for _, other := range k.w.voters {
		if c := k.w.of(other); other != slot && c != nil && k.w.works(c) && !k.taken[other] {
			left = append(left, other)
		}
	}
	v := len(k.w.voters)
	interruption := v == 1 || v == 2 && k.c.spec.UpdatePolicy.Interruption == group.InterruptionAllow
	if len(left) < group.Quorum(v) && !interruption {
		k.broke("I2: %s of %s leaves %d of %d voters", kind, slot, len(left), v)
	}
}

func (k *checker) leader(slot string) {
	if k.w.kind == group.WorkloadNone || k.w.leader != slot || group.StopsLeader(k.c.spec) {
		return
	}
	for _, other := range k.c.spec.Members() {
		if c := k.w.of(other); other != slot && c != nil && k.w.works(c) && c.lag == 0 && k.w.eligible(other) && !k.taken[other] {
			k.broke("I3: %s leads and is stopped, and %s could have taken over", slot, other)
			return
		}
	}
}

// effective checks an effect of a call.
func (k *checker) effective(op operation.Operation, e operation.Effect) {
	if e.Call == operation.PartStop || k.w.stopFirst && e.Call == operation.PartCompose {
		return // a stop of a stopped CVM, and another write of the files of one, do no harm
	}
	key := fmt.Sprint(op.ID, op.Rollout, op.Order, e.Call) // a newer spec gives an Operation another number and other parts
	if k.effects[key]++; k.effects[key] > 1 {
		k.broke("I17: %s of %s takes effect %d times", e.Call, op.ID, k.effects[key])
	}
}

func areOf(slots []string) string {
	if len(slots) == 1 {
		return slots[0] + " is"
	}
	return strings.Join(slots, ", ") + " are"
}
