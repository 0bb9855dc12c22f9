package reconcile_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// acceptStored records the stored spec as accepted, like an earlier version with fewer rules.
func (w *world) acceptStored(s group.Spec) {
	w.t.Helper()
	// Without a Term, the leader's writes would mean that the Term is lost.
	w.until("a leader", time.Minute, func() bool { return w.term() > 0 })
	raw, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	accepted := store.AcceptedSpec{Group: "pg", SpecIndex: w.view().Specs["pg"].Index, Spec: raw, Term: 1}
	op, err := store.Put(store.GroupAcceptedKey("pg"), accepted, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.Commit(w.t.Context(), op); err != nil {
		w.t.Fatal(err)
	}
}

// with is spec(release) with an additional line in its service.
func with(release, line string) group.Spec {
	s := spec(release)
	s.Template.Compose += "    " + line + "\n"
	return s
}

// A plain KV edit is judged like an API call. A spec whose hash would not fix the running content,
// or that exposes the guest agent, changes nothing.
func TestATT14_ATT16_ATT17_TOK19_PlainKVEditsAreLinted(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(with("none", "privileged: true"))
		w.until("the first spec's condition", time.Minute, w.condition("SpecValid", "SPEC_INVALID"))
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		calls := len(w.made(""))

		preload := spec("two")
		preload.Template.Env = map[string]string{"LD_PRELOAD": "/data/x.so"}
		for _, c := range []struct {
			name string
			spec group.Spec
			want string // in the condition
		}{
			{"privileged", with("two", "privileged: true"), "services.pg.privileged"},
			{"the guest agent's socket", with("two", `volumes: ["/var/run/dstack.sock:/var/run/dstack.sock"]`), "guest-socket"},
			{"the engine's socket", with("two", `volumes: ["/var/run/docker.sock:/var/run/docker.sock"]`), "engine-socket"},
			{"code from the environment", with("two", "command: $RUN"), "IMAGE_NOT_PINNED"},
			{"a steering variable", preload, "LD_PRELOAD"},
		} {
			w.apply(c.spec)
			w.until(c.name+": the condition", time.Minute, func() bool {
				for _, condition := range w.status().Conditions {
					if condition.Type == "SpecValid" && !condition.Status && strings.Contains(condition.Message, c.want) {
						return true
					}
				}
				return false
			})
			tick(t.Context(), 15*time.Second)
			if inForce, _, ok := w.view().InForce("pg"); !ok || inForce.Template.Compose != spec("one").Template.Compose || len(inForce.Template.Env) > 0 {
				t.Errorf("%s: in force %v: %+v", c.name, ok, inForce.Template)
			}
		}
		if got := w.made(""); len(got) != calls {
			t.Errorf("calls after edits that are refused: %v", got[calls:])
		}
		if st := w.status(); st.Available != 3 || st.Target != spec("one").Revision() {
			t.Errorf("available %d, target %s", st.Available, st.Target)
		}
		w.apply(spec("two"))
		w.until("the corrected spec", 5*time.Minute, w.complete("two"))
	})
}

// An upgrade to a lint that refuses a running spec stops neither the group nor a change of its
// size. Only new content is judged.
func TestAcceptedSpecOutlivesANewerLint(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		old := with("one", "privileged: true")
		w.apply(old)
		w.acceptStored(old)
		target := old.Revision()
		w.until("creation", 2*time.Minute, func() bool { st := w.status(); return st.Stable == target && st.Available == 3 })
		w.until("that it counts as valid", time.Minute, func() bool { return !w.condition("SpecValid", "SPEC_INVALID")() })

		ready := 3
		old.UpdatePolicy.MinReadySeconds = &ready
		w.apply(old)
		w.until("an edit beside the content", time.Minute, func() bool {
			inForce, _, _ := w.view().InForce("pg")
			return inForce.UpdatePolicy.MinReadySeconds != nil && *inForce.UpdatePolicy.MinReadySeconds == ready
		})
		w.apply(with("two", "privileged: true"))
		w.until("the condition", time.Minute, w.condition("SpecValid", "SPEC_INVALID"))
		if got := w.made("update"); len(got) != 0 {
			t.Errorf("updates: %v", got)
		}
	})
}
