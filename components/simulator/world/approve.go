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

// approves makes an operator approve a group's new content, some time after the request.
func (w *World) approves(ctx context.Context, g plan.Group) {
	since, done := map[string]time.Time{}, map[string]bool{}
	for pause(ctx, looks) {
		spec, is := w.wanted()[g.Name]
		if !is {
			continue
		}
		revision, own := spec.Revision(), spec.OwnEnvs(spec.Template)
		asked := revision + " " + own
		if _, seen := since[asked]; !seen {
			since[asked] = time.Now()
		}
		over := time.Since(w.began) >= w.plan.HealAt
		if done[asked] || !over && time.Since(since[asked]) < g.Approval {
			continue
		}
		hash, err := simulated.ComposeHash(Cluster, g.Name, spec.Template)
		if err != nil {
			panic(fmt.Sprintf("what %s is to run has no hash: %v", g.Name, err)) // the spec is the simulator's own
		}
		done[asked] = true
		w.put(ctx, store.ApprovalKey(revision), policy.Approval{Revision: revision, ComposeHash: hash, OwnEnv: own, Group: g.Name, By: "operator", At: time.Now()})
	}
}
