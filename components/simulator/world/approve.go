package world

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/policy"
	"cadre.dev/simulator/plan"
	"cadre.dev/store"
)

// approves has a person approve what a group is to run, a while after they asked for it.
func (w *World) approves(ctx context.Context, g plan.Group) {
	since, done := map[string]time.Time{}, map[string]bool{}
	for pause(ctx, looks) {
		spec, is := w.wanted()[g.Name]
		if !is {
			continue
		}
		revision := spec.Revision()
		if _, seen := since[revision]; !seen {
			since[revision] = time.Now()
		}
		over := time.Since(w.began) >= w.plan.HealAt
		if done[revision] || !over && time.Since(since[revision]) < g.Approval {
			continue
		}
		hash, err := simulated.ComposeHash(Cluster, g.Name, spec.Template)
		if err != nil {
			panic(fmt.Sprintf("what %s is to run has no hash: %v", g.Name, err)) // it is ours
		}
		done[revision] = true
		w.put(ctx, store.ApprovalKey(revision), policy.Approval{Revision: revision, ComposeHash: hash, Group: g.Name, By: "operator", At: time.Now()})
	}
}
