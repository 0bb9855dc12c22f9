package world

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// restEvery paces the looks at whether the cluster rests.
const restEvery = 5 * time.Second

// spec is what the operator asks for with a move.
func (w *World) spec(m plan.Move) group.Spec {
	ready := 2
	s := group.Spec{
		Name: groupName, Platform: "phala", Replicas: m.Replicas, ManagementPolicy: group.Parallel,
		Template: group.Template{
			Compose: "services:\n  pg:\n    image: example.org/pg@sha256:" + strings.Repeat("a", 64) +
				"\n    environment:\n      RELEASE: " + m.Release + "\n",
			InstanceType: "tdx.small", OSImage: "dstack-0.5.7",
		},
		UpdatePolicy: group.UpdatePolicy{MinReadySeconds: &ready},
		Workload:     group.Workload{Kind: w.plan.Workload},
	}
	if w.plan.Healing != plan.Unhealed {
		delay := 10
		s.AutoHealing = &group.AutoHealing{InitialDelaySec: &delay, Replace: w.plan.Healing}
	}
	s.Normalize()
	return s
}

// Operate makes the plan's moves, then waits until all went right again and the cluster rests,
// or has had its time for that, and ends the trace.
func (w *World) Operate(ctx context.Context) error {
	for _, m := range w.plan.Moves {
		if !pause(ctx, m.At-time.Since(w.began)) {
			return ctx.Err()
		}
		w.say(trace.Faulted, "operator", fmt.Sprintf("asks for %s, %d replicas", m.Release, m.Replicas))
		if err := w.Apply(ctx, w.spec(m)); err != nil {
			return err
		}
	}
	if !pause(ctx, w.plan.HealAt+restEvery-time.Since(w.began)) {
		return ctx.Err()
	}
	last := w.spec(w.plan.Moves[len(w.plan.Moves)-1])
	reason, since := "", time.Now()
	for end := since.Add(w.plan.Rest); time.Now().Before(end); {
		now, err := w.resting(ctx, last)
		if err != nil {
			return err
		}
		if now != reason {
			reason, since = now, time.Now()
		}
		// What names one reason for so long waits for somebody.
		if reason == "" || time.Since(since) > w.plan.Still || !pause(ctx, restEvery) {
			break
		}
	}
	w.settle(map[string]string{groupName: reason})
	return nil
}

// resting is "" when the group is as s wants it, else the reason that its status gives.
func (w *World) resting(ctx context.Context, s group.Spec) (string, error) {
	st, err := simulated.Status(ctx, w.store, groupName)
	if err != nil {
		return "", err
	}
	for _, c := range st.Conditions {
		if c.Type == rollout.ConditionOrphans && c.Status {
			return c.Message, nil
		}
	}
	if target := s.Revision(); st.Target == target && st.Stable == target && st.Available == s.Replicas && st.Updated == s.Replicas && len(st.Instances) == s.Replicas {
		return "", nil
	}
	reasons := []string{fmt.Sprintf("%s: %s", st.RolloutState, st.Message)}
	for _, one := range st.Instances {
		for _, h := range one.Holds {
			reasons = append(reasons, fmt.Sprintf("%s: %s: %s", one.Slot, h.Predicate, h.Message))
		}
	}
	return strings.Join(reasons, "; "), nil
}

func (w *World) settle(resting map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := trace.Event{Kind: trace.Settled, By: "operator", Resting: resting, Faults: w.faults}
	for _, c := range w.sortedLocked() {
		e.CVMs = append(e.CVMs, trace.CVM{Name: c.Name, VMUUID: c.VMUUID, InstanceID: c.InstanceID, Hash: c.ComposeHash})
	}
	w.noteLocked(e)
}
