package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// require_approval covers one Slot's own value of env like template.env. The value waits until the
// approval of the Revision covers it.
func TestATT15_ASlotIsGivenItsOwnEnvOnceItIsApproved(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s := spec("one")
		s.Template.Env = map[string]string{"COLOR": "blue"}
		s.UpdatePolicy.RequireApproval = true
		approve := func() {
			t.Helper()
			hash, err := simulated.ComposeHash(cluster, "pg", s.Template)
			if err != nil {
				t.Fatal(err)
			}
			w.record(store.ApprovalKey(s.Revision()), policy.Approval{
				Revision: s.Revision(), ComposeHash: hash, OwnEnv: s.OwnEnvs(s.Template), Group: "pg", By: "a person", At: time.Now(),
			})
		}
		w.apply(s)
		approve()
		w.until("creation", 5*time.Minute, func() bool { return w.status().Available == 3 && w.given(s) })
		calls := len(w.made(""))

		s.Instances = []group.InstanceSettings{{Ordinal: 1, Env: map[string]string{"COLOR": "red"}}}
		w.apply(s)
		w.until("the hold", 5*time.Minute, func() bool {
			return slices.ContainsFunc(w.status().Instances, func(i group.InstanceStatus) bool {
				return i.Slot == "pg-1" && slices.ContainsFunc(i.Holds, func(h group.Hold) bool { return h.Predicate == rollout.HoldNotApproved })
			})
		})
		tick(t.Context(), 10*time.Minute)
		if got := w.made("")[calls:]; len(got) != 0 || !strings.Contains(w.status().Message, "cadre admission approve") {
			t.Fatalf("calls without an approval: %v; message %q", got, w.status().Message)
		}
		approve()
		w.until("its own value", 5*time.Minute, func() bool { return w.given(s) && w.status().Available == 3 })
		if got := w.made("")[calls:]; !slices.Equal(got, []string{"update demo-pg-1"}) {
			t.Errorf("calls: %v", got)
		}
	})
}
