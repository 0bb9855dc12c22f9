package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// TestR95_ARolloutGoesStageByStage: one slot moves, bakes and waits for an operator's request in Consul KV. All others
// follow, and the revision is stable after the last bake. Each of these acts has one entry in the audit chain.
func TestR95_ARolloutGoesStageByStage(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		before := w.status()
		next := spec("two")
		next.UpdatePolicy.Bake = group.Duration(time.Hour)
		next.UpdatePolicy.Stages = []group.Stage{{Slots: 1, Bake: group.Duration(30 * time.Minute), Promote: group.PromoteAsk}}
		w.apply(next)
		waits := func() bool {
			return slices.ContainsFunc([]string{"pg-0", "pg-1", "pg-2"}, func(slot string) bool {
				return slices.ContainsFunc(w.instance(slot).Holds, func(h group.Hold) bool { return h.Predicate == rollout.HoldStagePromotion })
			})
		}
		w.until("the end of the first bake", 40*time.Minute, waits)
		if got := w.made("update"); len(got) != 1 {
			t.Errorf("updates in the first stage: %v", got)
		}
		tick(t.Context(), 2*time.Hour)
		at := w.status()
		if at.RolloutState != string(operation.Running) || at.Updated != 1 {
			t.Errorf("%s, %d updated, while the stage waits: %s", at.RolloutState, at.Updated, at.Message)
		}
		w.putJSON(store.QueueKey("p1"), store.QueueRequest{ID: "p1", Kind: store.RequestPromote, Group: "pg", Rollout: at.Rollout, Stage: 1, By: "ann", At: time.Now()})
		w.until("the last bake", 10*time.Minute, func() bool { return w.status().RolloutState == string(operation.BakingState) })
		tick(t.Context(), 50*time.Minute)
		if got := w.status(); got.RolloutState != string(operation.BakingState) || got.Stable != before.Stable || len(w.made("update")) != 3 {
			t.Errorf("%s, stable %.8s, updates %v", got.RolloutState, got.Stable, w.made("update"))
		}
		w.until("the rollout", 20*time.Minute, w.complete("two"))
		if got, want := w.acts("rollouts"), []string{"leader start-rollout", "leader complete-rollout", "leader start-rollout", "leader promote-stage", "leader complete-rollout"}; !slices.Equal(got, want) {
			t.Errorf("acts %v, want %v", got, want)
		}
	})
}
