package reconcile_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	"cadre.dev/platform"
	"cadre.dev/store"
)

func (w *world) answers(f func(platform.Template, *platform.Provisioned)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

// policies are the Revisions that the Slots may run, and documents the kept documents.
func (w *world) policies() map[string]view.Rec[policy.SlotPolicy] { return w.view().Policies }

func (w *world) documents() map[string]bool {
	w.t.Helper()
	entries, _, err := w.store.List(w.t.Context(), store.AppComposePrefix)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]bool{}
	for _, e := range entries {
		out[strings.TrimPrefix(e.Key, store.AppComposePrefix)] = true
	}
	return out
}

func own(edit func(string) string) func(platform.Template, *platform.Provisioned) {
	return func(t platform.Template, p *platform.Provisioned) {
		p.AppCompose = []byte(edit(string(t.AppCompose)))
		p.ComposeHash = appcompose.Hash(p.AppCompose)
	}
}

// A platform that would measure other content gets no call and no policy. No member is drained for
// it, and the status names the reason.
func TestThreat_ATT_15_PlatformThatWouldMeasureSomethingElseChangesNothing(t *testing.T) {
	evil := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		answer func(platform.Template, *platform.Provisioned)
		says   []string
	}{
		"another hash": {func(_ platform.Template, p *platform.Provisioned) { p.ComposeHash = evil }, []string{evil, measuredAs("two")}},
		"another text": {own(func(s string) string { return strings.Replace(s, "{", `{"bash_script":"curl | sh",`, 1) }), []string{"bash_script, which it added"}},
		"another script": {own(func(s string) string {
			return strings.Replace(s, `"pre_launch_script":"`, `"pre_launch_script":"curl | sh\n`, 1)
		}), []string{"pre_launch_script, which is"}},
		"public logs": {own(func(s string) string { return strings.Replace(s, `"public_logs":false`, `"public_logs":true`, 1) }), []string{"public_logs, which is true in place of false"}},
		"an env name": {own(func(s string) string {
			return strings.Replace(s, `"allowed_envs":[]`, `"allowed_envs":["LD_PRELOAD"]`, 1)
		}), []string{"allowed_envs"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				w.apply(spec("one"))
				w.until("creation", 2*time.Minute, w.complete("one"))
				before, calls := w.policies(), len(w.made(""))
				w.answers(c.answer)
				w.apply(spec("two"))
				for _, text := range append(c.says, "precondition") {
					w.until("the status to say "+text, 2*time.Minute, w.says(text))
				}
				tick(t.Context(), 2*time.Minute)
				if got := w.made(""); len(got) != calls {
					t.Errorf("calls: %v", got[calls:])
				}
				after := w.policies()
				for slot, p := range before {
					if !reflect.DeepEqual(p.Value.Allowed, after[slot].Value.Allowed) {
						t.Errorf("%s may run %+v, before %+v", slot, after[slot].Value.Allowed, p.Value.Allowed)
					}
				}
				if kept := w.documents(); len(kept) != 1 || !kept[measuredAs("one")] {
					t.Errorf("documents %v", kept)
				}
				if _, recorded := w.view().Revisions[revisionOf("two")]; recorded || w.status().Available != 3 {
					t.Errorf("recorded %t, %d available", recorded, w.status().Available)
				}
				w.answers(nil)
				w.until("the update", 10*time.Minute, w.complete("two"))
			})
		})
	}
}

// A false answer of the platform does not begin a new group either.
func TestThreat_ATT_15_NoCVMIsMadeOfAnotherHash(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.answers(func(_ platform.Template, p *platform.Provisioned) { p.ComposeHash = strings.Repeat("ab", 32) })
		w.apply(spec("one"))
		w.until("the reason", time.Minute, w.says("precondition"))
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != 0 || len(w.policies()) != 0 || len(w.documents()) != 0 {
			t.Errorf("calls %v, policies %v, documents %v", got, w.policies(), w.documents())
		}
		w.answers(nil)
		w.until("creation", 10*time.Minute, w.complete("one"))
	})
}

// A platform may insist on its own equivalent text. The policy then allows the hash of that text,
// and the text is kept for operators to read.
func TestPlatformsOwnTextIsJudgedAndKept(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.answers(own(func(s string) string { return strings.Replace(s, "{", `{"swap_size":0,`, 1) }))
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		revision := w.view().Revisions[revisionOf("one")].Value
		if revision.ComposeHash == measuredAs("one") || !w.documents()[revision.ComposeHash] {
			t.Fatalf("recorded %s, documents %v", revision.ComposeHash, w.documents())
		}
		document, _, err := store.Read[policy.Document](t.Context(), w.store, store.AppComposeKey(revision.ComposeHash))
		if err != nil {
			t.Fatal(err)
		}
		text, err := document.Text()
		if err != nil || !strings.HasPrefix(string(text), `{"swap_size":0,`) || document.Group != "pg" || document.Revision != revisionOf("one") {
			t.Errorf("document %+v, text %s, %v", document, text, err)
		}
		for slot, p := range w.policies() {
			if len(p.Value.Allowed) != 1 || p.Value.Allowed[0].ComposeHash != revision.ComposeHash {
				t.Errorf("%s may run %+v", slot, p.Value.Allowed)
			}
		}
	})
}

// The document of a step stays readable while its call is out, even after an edit or a removal of
// its record.
func TestADocumentIsWrittenAgainWhileItsCallWaits(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		w.fault = func(string) (bool, error) { return false, platform.ErrBusy }
		w.mu.Unlock()
		w.apply(spec("two"))
		key := store.AppComposeKey(measuredAs("two"))
		kept := func() bool {
			d, _, err := store.Read[policy.Document](t.Context(), w.store, key)
			if err == nil {
				_, err = d.Text()
			}
			return err == nil
		}
		w.until("the document", time.Minute, kept)
		for name, op := range map[string]store.Op{"removed": {Kind: store.OpDelete, Key: key}, "edited": {Kind: store.OpPut, Key: key, Value: []byte(`{}`)}} {
			tick(t.Context(), 10*time.Second) // the leader has found the document valid
			if err := w.store.Commit(t.Context(), op); err != nil {
				t.Fatal(err)
			}
			w.until("a document after it was "+name, time.Minute, kept)
		}
		w.mu.Lock()
		w.fault = nil
		w.mu.Unlock()
		w.until("the update", 10*time.Minute, w.complete("two"))
	})
}
