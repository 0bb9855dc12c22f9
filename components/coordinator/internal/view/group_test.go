package view_test

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestAGroupIsReadWithTheLatestView: unchanged records are shared, changed ones are read again,
// and a value modified in place is found.
func TestAGroupIsReadWithTheLatestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		write := func(slot, boot string) {
			t.Helper()
			op := store.Op{Kind: store.OpPut, Key: store.AdmissionKey(slot), Value: []byte(`{"slot":"` + slot + `","boot_id":"` + boot + `","token_accessors":["a"]}`)}
			if err := s.Commit(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		write("pg-0", "one")
		write("pg-1", "one")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := view.NewWatcher(s, slog.New(slog.DiscardHandler))
		go func() { _ = w.Run(ctx) }()
		synctest.Wait()
		latest, _ := w.Latest()
		write("pg-1", "two") // no View has it yet
		v, err := view.ReadGroup(ctx, s, "pg", latest, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Admissions["pg-1"].Value.BootID; got != "two" {
			t.Errorf("pg-1 is held by %q, want what was written last", got)
		}
		again, err := view.ReadGroup(ctx, s, "pg", latest, v.Own())
		if err != nil || reflect.ValueOf(again.Admissions).Pointer() != reflect.ValueOf(v.Admissions).Pointer() {
			t.Errorf("what no record says otherwise was made sense of again: %v", err)
		}
		if !again.Same(v) || again.Same(latest) {
			t.Error("Same does not distinguish equal and different records")
		}
		revision := store.Op{Kind: store.OpPut, Key: store.RevisionKey("r"), Value: []byte(`{"digest":"r","group":"pg"}`)}
		if err := s.Commit(ctx, revision); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		now, _ := w.Latest()
		if again, err = view.ReadGroup(ctx, s, "pg", now, v.Own()); err != nil || again.Revisions["r"].Index == 0 || again.All() != now {
			t.Errorf("a revision that the latest View has is missing: %v, %v", again.Revisions, err)
		}
		write("pg-2", "one") // at a revision that no View has
		admission := store.Op{Kind: store.OpPut, Key: store.AdmissionKey("pg-2"), Value: []byte(`{"slot":"pg-2","boot_id":"one","revision":"late"}`)}
		if err := s.Commit(ctx, admission); err != nil {
			t.Fatal(err)
		}
		if v, err = view.ReadGroup(ctx, s, "pg", now, again.Own()); err != nil || v.Same(again) {
			t.Errorf("another admission says the same: %v", err)
		}
		late := store.Op{Kind: store.OpPut, Key: store.RevisionKey("late"), Value: []byte(`{"digest":"late","group":"pg"}`)}
		if err := s.Commit(ctx, late); err != nil {
			t.Fatal(err)
		}
		if again, err = view.ReadGroup(ctx, s, "pg", now, v.Own()); err != nil || again.Revisions["late"].Index == 0 || again.Same(v) {
			t.Errorf("a revision that was written since is missing: %v, %v", again.Revisions, err)
		}
		shared := &v.Admissions["pg-0"].Value.TokenAccessors[0]
		if shared != &latest.Admissions["pg-0"].Value.TokenAccessors[0] {
			t.Error("what did not change was decoded again")
		}
		if altered := latest.Altered(); len(altered) > 0 {
			t.Errorf("altered: %v", altered)
		}
		*shared = "b"
		if altered := latest.Altered(); !slices.Equal(altered, []string{store.AdmissionKey("pg-0")}) {
			t.Errorf("altered: %v, want the value that was modified in place", altered)
		}
	})
}
