package reconcile_test

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/audit"
	"cadre.dev/store"
)

// chain reads and verifies the kept entries.
func (w *world) chain() (entries []audit.Entry) {
	w.t.Helper()
	head, err := store.ReadAuditHead(w.t.Context(), w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	v := audit.After(head.Checkpoint)
	for from := head.Checkpoint.Number + 1; from <= head.Last.Number; {
		some, err := store.ReadAudit(w.t.Context(), w.store, from, head.Last.Number)
		if err != nil || len(some) == 0 {
			w.t.Fatalf("entries from %d of %d: %d, %v", from, head.Last.Number, len(some), err)
		}
		for _, e := range some {
			if err := v.Next(e); err != nil {
				w.t.Fatal(err)
			}
		}
		entries, from = append(entries, some...), from+uint64(len(some))
	}
	if err := v.End(head.Last); err != nil {
		w.t.Fatal(err)
	}
	return entries
}

// acts lists the entries about an object as "who verb".
func (w *world) acts(object string) (out []string) {
	w.t.Helper()
	for _, e := range w.chain() {
		if e.About(object) {
			out = append(out, string(e.Who)+" "+e.Verb)
		}
	}
	return out
}

// note is the note of an operator's act.
func note(verb string) audit.Entry {
	return audit.Entry{At: time.Now(), Who: audit.Operator, By: "ann", Verb: verb}
}

// TestCTL21_EachRolloutIsInTheChainOnce: the leadership, the spec and how it came, and the begin and
// the end of its rollout. An hour later there is no further entry.
func TestCTL21_EachRolloutIsInTheChainOnce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		tick(t.Context(), 5*time.Second) // records from before the first entry are no edits
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		raw, err := json.Marshal(spec("two"))
		if err != nil {
			t.Fatal(err)
		}
		before := store.GroupSpecKey("pg")
		if err := w.store.Commit(t.Context(), store.NoteAll(note("apply"), store.Op{Kind: store.OpPut, Key: before, Value: raw},
			store.Op{Kind: store.OpPut, Key: store.AppliedKey("pg"), Value: []byte(`{"group":"pg","by":"ann","request":"ticket-7","at":"2026-01-01T00:00:00Z"}`)})...); err != nil {
			t.Fatal(err)
		}
		w.until("the rollout", 10*time.Minute, w.complete("two"))
		tick(t.Context(), time.Hour)
		for object, want := range map[string][]string{
			store.TermKey:                {"leader lead"},
			store.GroupSpecKey("pg"):     {"kv edit", "operator apply"},
			store.GroupAcceptedKey("pg"): {"leader accept", "leader accept"},
			"rollouts":                   {"leader start-rollout", "leader complete-rollout", "leader start-rollout", "leader complete-rollout"},
			"":                           nil,
		} {
			if got := w.acts(object); object != "" && !slices.Equal(got, want) || object == "" && len(got) != 9 {
				t.Errorf("%q: %v, want %v", object, got, want)
			}
		}
		for _, e := range w.chain() {
			if ofAnn := e.Request == "ticket-7"; e.Who == audit.Leader && ofAnn != strings.Contains(e.Reason, "ann") || e.Who == audit.Leader && e.By != "coordinator-0" {
				t.Errorf("%+v", e)
			}
			if edit := e.Who == audit.KV; edit && (e.By != store.WrittenToKV || e.Before != "" || e.After == "") {
				t.Errorf("%+v", e)
			}
		}
	})
}

// TestCTL21_AnEditInConsulKVIsEntered with the digests before and after, once, under any leader. A
// change by the API or the leader is not an edit.
func TestCTL21_AnEditInConsulKVIsEntered(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		first := w.coordinator("coordinator-0")
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		key := store.OverrideKey(store.OverrideFreeze, "pg")
		freeze := func(reason string, until time.Time) store.Op {
			op, err := store.Put(key, store.Override{Reason: reason, By: "ann", At: time.Now(), Until: until}, 0)
			if err != nil {
				t.Fatal(err)
			}
			op.Kind, op.Index = store.OpPut, 0
			return op
		}
		commit := func(ops ...store.Op) {
			t.Helper()
			if err := w.store.Commit(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			tick(t.Context(), 5*time.Second)
		}
		wants := func(want ...string) {
			t.Helper()
			if got := w.acts(key); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		}
		edit := freeze("by hand", time.Time{})
		commit(edit)
		wants("kv edit")
		commit(store.Noted(freeze("by the API", time.Time{}), note("freeze")))
		commit(store.Noted(store.Op{Kind: store.OpDelete, Key: key}, note("end-freeze")))
		wants("kv edit", "operator freeze", "operator end-freeze")
		commit(store.Noted(freeze("for a while", time.Now().Add(time.Minute)), note("freeze")))
		tick(t.Context(), 20*time.Minute) // the leader counts its end, and removes it
		wants("kv edit", "operator freeze", "operator end-freeze", "operator freeze", "leader update", "leader remove")
		commit(edit)
		commit(store.Op{Kind: store.OpDelete, Key: key})
		wants("kv edit", "operator freeze", "operator end-freeze", "operator freeze", "leader update", "leader remove", "kv edit", "kv edit")
		all := w.chain()
		if last := all[len(all)-1]; last.Before != audit.ValueDigest(edit.Value, true) || last.After != "" {
			t.Errorf("of the deletion: %+v", last)
		}

		first.stop()
		<-first.ended
		commit(freeze("without a leader", time.Time{}))
		w.put("control/pause/NotAName", []byte("{}"))
		w.coordinator("coordinator-1")
		w.until("the edit", time.Minute, func() bool { return len(w.acts(key)) == 9 })
		tick(t.Context(), time.Hour)
		if got := w.acts(key); len(got) != 9 || got[8] != "kv edit" {
			t.Errorf("after the second leader: %v", got)
		}
	})
}

// TestCTL21_ADamagedChainStopsNoRollout: lost and unreadable entries are reported, and the chain
// goes on after them.
func TestCTL21_ADamagedChainStopsNoRollout(t *testing.T) {
	for name, damage := range map[string]func(w *world, last uint64){
		"the head is gone":       func(w *world, _ uint64) { w.remove(store.AuditHeadKey) },
		"the head is unreadable": func(w *world, _ uint64) { w.put(store.AuditHeadKey, []byte("{")) },
		"an entry is gone":       func(w *world, last uint64) { w.remove(store.AuditKey(last)) },
		"an entry is unreadable": func(w *world, last uint64) { w.put(store.AuditKey(last), []byte("{")) },
		"all entries are gone": func(w *world, last uint64) {
			for n := range last {
				w.remove(store.AuditKey(n + 1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin(t, func(t *testing.T, w *world) {
				first := w.coordinator("coordinator-0")
				w.apply(spec("one"))
				w.until("creation", 2*time.Minute, w.complete("one"))
				damage(w, w.chain()[len(w.chain())-1].Number)
				w.apply(spec("two"))
				w.until("the rollout", 10*time.Minute, w.complete("two"))
				first.stop()
				<-first.ended
				w.coordinator("coordinator-1")
				w.apply(spec("three"))
				w.until("the next rollout", 10*time.Minute, w.complete("three"))
			})
		})
	}
}

// TestCTL21_OldEntriesGoIntoTheLog: 10,000 entries stay. Each removed one is in the log, and the
// rest of the chain continues the checkpoint.
func TestCTL21_OldEntriesGoIntoTheLog(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		const written = 10_060
		var head audit.Head
		var ops []store.Op
		for range written {
			var e audit.Entry
			head, e = head.Append(audit.Entry{At: time.Now(), Who: audit.Operator, By: "ann", Verb: "freeze", Object: "control/freeze/pg"})
			put, err := store.Put(store.AuditKey(e.Number), e, 0)
			if err != nil {
				t.Fatal(err)
			}
			ops = append(ops, put)
		}
		put, err := store.Put(store.AuditHeadKey, head, 0)
		if err != nil {
			t.Fatal(err)
		}
		for batch := range store.Batches(nil, append(ops, put)) {
			if err := w.store.Commit(t.Context(), batch...); err != nil {
				t.Fatal(err)
			}
		}
		log := &lines{}
		w.coordinator("coordinator-0", func(_ *life, c *simulated.Config) { c.Log = slog.New(slog.NewJSONHandler(log, nil)) })
		tick(t.Context(), 25*time.Minute)
		kept := w.chain()
		if len(kept) != 10_000 || kept[0].Number != kept[len(kept)-1].Number-9_999 {
			t.Errorf("%d entries, from %d to %d", len(kept), kept[0].Number, kept[len(kept)-1].Number)
		}
		for _, number := range []string{`\"number\":1,`, `\"number\":60,`} {
			if !log.has("old entry of the audit chain", number) {
				t.Errorf("%s is not in the log", number)
			}
		}
		if next := `\"number\":` + jsonOf(kept[0].Number) + ","; log.has("old entry of the audit chain", next) {
			t.Errorf("%s is in the log, and is kept", next)
		}

		w.put(store.AuditKey(kept[0].Number), []byte("{}"))
		for range 30 {
			w.put(store.OverrideKey(store.OverrideFreeze, "pg"), []byte(jsonOf(store.Override{Reason: time.Now().String()})))
			tick(t.Context(), time.Second)
		}
		tick(t.Context(), 25*time.Minute)
		if !log.has("the oldest entries of the audit chain stay", "AUDIT_CHAIN_BROKEN") {
			t.Error("a damaged entry is removed without a word")
		}
	})
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
