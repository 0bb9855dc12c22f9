package reconcile

import (
	"log/slog"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/audit"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestEditsAreNoticedBeforeTheFirstView: a leader may begin before its first read of all records.
func TestEditsAreNoticedBeforeTheFirstView(t *testing.T) {
	memory := storetest.NewMemory()
	spec, err := store.PutRaw(store.GroupSpecKey("pg"), []byte("{}"), 0)
	if err == nil {
		err = memory.Commit(t.Context(), store.Noted(spec, audit.Entry{At: time.Now(), Who: audit.Operator, By: "ann", Verb: "apply"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{Store: memory, Views: view.NewWatcher(memory, slog.New(slog.DiscardHandler)), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err := r.enterEdits(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
