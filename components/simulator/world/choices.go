package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/core/window"
	"cadre.dev/simulator/plan"
	"cadre.dev/store"
)

// limits makes the operator set the limits of the cluster, each at its time.
func (w *World) limits(ctx context.Context) {
	for _, l := range w.plan.Limits {
		if !pause(ctx, l.At-time.Since(w.began)) {
			return
		}
		if l.Steps+l.Rollouts+l.Creations == 0 {
			_ = w.store.Commit(ctx, store.Op{Kind: store.OpDelete, Key: store.LimitsKey()})
			continue
		}
		w.put(ctx, store.LimitsKey(), store.Limits{
			Steps: l.Steps, Rollouts: l.Rollouts, Creations: l.Creations, Reason: "one host", By: "operator", At: time.Now(),
		})
	}
}

// promotes makes an operator promote the group's stage, some time after the stage asks for it.
func (w *World) promotes(ctx context.Context, g plan.Group) {
	type stage struct {
		rollout string
		number  int
	}
	since, done := map[stage]time.Time{}, map[stage]time.Time{}
	for pause(ctx, looks) {
		if !w.waitsForOperator(g.Name) {
			continue
		}
		st, err := simulated.Status(ctx, w.store, g.Name)
		asks := func(i group.InstanceStatus) bool {
			return slices.ContainsFunc(i.Holds, func(h group.Hold) bool { return h.Predicate == rollout.HoldStagePromotion })
		}
		if err != nil || !slices.ContainsFunc(st.Instances, asks) {
			continue
		}
		w.mu.Lock()
		asked := stage{st.Rollout, w.operators.rollouts[st.Rollout].StagesPassed + 1}
		w.mu.Unlock()
		if _, seen := since[asked]; !seen {
			since[asked] = time.Now()
		}
		over := time.Since(w.began) >= w.plan.HealAt
		if time.Since(done[asked]) < time.Minute || !over && time.Since(since[asked]) < g.Promote {
			continue
		}
		done[asked] = time.Now()
		w.request(ctx, store.QueueRequest{Kind: store.RequestPromote, Group: g.Name, Rollout: asked.rollout, Stage: asked.number})
	}
}

// passesHold makes an operator override a hold of a group for a while, in its present rollout.
func (w *World) passesHold(ctx context.Context, f plan.Fault) {
	hold := map[plan.FaultKind]string{
		plan.OverrideWindow: rollout.HoldOutsideWindow, plan.OverrideAfter: rollout.HoldAfterGroup, plan.OverrideBake: rollout.HoldStageBaking,
	}[f.Kind]
	st, err := simulated.Status(ctx, w.store, f.Target)
	if err != nil {
		return
	}
	w.mu.Lock()
	r, is := w.operators.rollouts[st.Rollout]
	w.mu.Unlock()
	current := (*operation.Rollout)(nil)
	if is {
		current = &r
	}
	now := time.Now()
	w.sets(ctx, f.For, store.OverrideKey(store.OverrideHold, f.Target+"/"+hold), store.Override{
		Rollout: rollout.CurrentRollout(current), Reason: "it is urgent", By: "operator", At: now, Until: now.Add(f.For),
	})
}

// choose adds the settings of a group's rollouts that depend on its budget and its place among the groups.
func choose(s *group.Spec, g plan.Group, m plan.Move) {
	if g.After != "" {
		s.After = []string{g.After}
	}
	if g.Priority > 0 {
		s.Priority = &g.Priority
	}
	s.Gates = gates(g)
	p := &s.UpdatePolicy
	if m.Window != "" {
		spans, err := m.Window.Each()
		if err != nil {
			panic(fmt.Sprintf("the plan's window: %v", err)) // Parse refuses it
		}
		clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }
		for _, one := range spans {
			p.Windows = append(p.Windows, window.Window{From: clock(one[0]), To: clock(one[1]), Zone: "UTC"})
		}
	}
	if group.HasVoters(*s) {
		return
	}
	p.MaxFailed = max(0, min(g.MaxFailed, group.MaxUnavailable(*s)+group.MaxSurge(*s)-1))
	if g.Renew && group.MaxSurge(*s) > 0 && !s.PreservesDisks() && !m.Opportunistic {
		p.MinimalAction = group.ActionReplace
	}
}
