package view

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// crashing panics while the records of several kinds are read.
type crashing struct {
	store.Store
	crash *atomic.Bool
}

func (c crashing) Together(ctx context.Context, prefixes ...string) ([]store.Entry, error) {
	if c.crash.Load() {
		panic("index out of range")
	}
	return c.Store.Together(ctx, prefixes...)
}

// A panic of a read keeps the previous View, and then everything is read again.
func TestAPanicOfAReadingEndsNoCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, crash, counted := storetest.NewMemory(), &atomic.Bool{}, &atomic.Int64{}
		w := NewWatcher(crashing{memory, crash}, slog.New(slog.DiscardHandler))
		w.Contain(contain.New(slog.New(slog.DiscardHandler), func(string) { counted.Add(1) }))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		put(t, memory, store.OverrideKey(store.OverridePause, "a"), `{}`)
		settled()
		crash.Store(true)
		put(t, memory, store.OverrideKey(store.OverridePause, "b"), `{}`)
		settled()
		if v, _ := w.Latest(); len(v.Overrides[store.OverridePause]) != 1 || counted.Load() == 0 {
			t.Fatalf("pauses %v after %d panics", v.Overrides[store.OverridePause], counted.Load())
		}
		crash.Store(false)
		settled()
		if v, _ := w.Latest(); len(v.Overrides[store.OverridePause]) != 2 || !w.Readable() {
			t.Errorf("pauses %v, readable %t", v.Overrides[store.OverridePause], w.Readable())
		}
	})
}
