package view

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// silent is a store that can stop answering: its calls end only with their context.
type silent struct {
	store.Store
	now chan struct{} // closed: it does not answer any more
}

func (s silent) List(ctx context.Context, prefix string) ([]store.Entry, uint64, error) {
	select {
	case <-s.now:
		<-ctx.Done()
		return nil, 0, ctx.Err()
	default:
		return s.Store.List(ctx, prefix)
	}
}

func (s silent) Together(ctx context.Context, what ...string) ([]store.Entry, error) {
	select {
	case <-s.now:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		return s.Store.Together(ctx, what...)
	}
}

func (s silent) Watch(ctx context.Context, prefix string, index uint64) (uint64, error) {
	select {
	case <-s.now:
		<-ctx.Done()
		return index, ctx.Err()
	default:
		return s.Store.Watch(ctx, prefix, index)
	}
}

// watching runs a Watcher during f, on a memory store that f can make fail.
func watching(t *testing.T, f func(w *Watcher, s *storetest.Memory, silence func())) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := silent{Store: storetest.NewMemory(), now: make(chan struct{})}
		w := NewWatcher(s, slog.New(slog.DiscardHandler))
		var running sync.WaitGroup
		if w.Readable() {
			t.Error("readable before the first read")
		}
		running.Go(func() { _ = w.Run(ctx) })
		synctest.Wait()
		f(w, s.Store.(*storetest.Memory), func() { close(s.now) })
		cancel()
		running.Wait()
	})
}

// pass advances the time and returns how long the records were readable.
func pass(w *Watcher, d time.Duration) (readable time.Duration) {
	const step = 500 * time.Millisecond
	for range d / step {
		time.Sleep(step)
		synctest.Wait()
		if w.Readable() {
			readable += step
		}
	}
	return readable
}

func TestRecordsThatDoNotChangeStayReadable(t *testing.T) {
	watching(t, func(w *Watcher, _ *storetest.Memory, _ func()) {
		if got := pass(w, time.Hour); got != time.Hour {
			t.Errorf("readable for %v of an hour in which nothing changed", got)
		}
	})
}

// TestAFailingStoreIsNotReadableForLong: an election is tolerated, and a store that answers again
// is readable at once.
func TestAFailingStoreIsNotReadableForLong(t *testing.T) {
	watching(t, func(w *Watcher, s *storetest.Memory, _ func()) {
		for range 3 {
			pass(w, 5*time.Minute)
			s.FailReads(errors.New("no leader"))
			if got := pass(w, grace-time.Second); got != grace-time.Second {
				t.Errorf("readable for %v of a short failure", got)
			}
			if got := pass(w, time.Minute); got > time.Second {
				t.Errorf("readable for %v of a long failure", got)
			}
			s.FailReads(nil)
			pass(w, retryIn)
			if got := pass(w, time.Minute); got != time.Minute {
				t.Errorf("readable for %v of a minute after the failure", got)
			}
		}
	})
}

func TestASilentStoreIsNotReadableForLong(t *testing.T) {
	watching(t, func(w *Watcher, _ *storetest.Memory, silence func()) {
		pass(w, 5*time.Minute)
		silence()
		// The current Watch may still answer.
		if got := pass(w, 10*time.Minute); got > time.Minute+patience {
			t.Errorf("readable for %v though the store says nothing", got)
		}
		if w.Readable() {
			t.Error("readable permanently")
		}
	})
}

// slow is a store with slow reads, which may fail while its watches answer.
type slow struct {
	store.Store
	mu   sync.Mutex
	fail error // guarded by mu
}

func (s *slow) Together(ctx context.Context, what ...string) ([]store.Entry, error) {
	out, err := s.Store.Together(ctx, what...)
	pause(ctx, 1200*time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return out, errors.Join(err, s.fail)
}

func (s *slow) failReads(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// TestRecordsThatChangeAllTheTimeStayReadable: the View always lacks a recent change, and is as
// recent as a read permits. While no read succeeds the records become unreadable.
func TestRecordsThatChangeAllTheTimeStayReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: storetest.NewMemory()}
		w := NewWatcher(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { _ = w.Run(ctx) })
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				for key, text := range samples("web", n%3) {
					put(t, s, key, text)
				}
				pause(ctx, 100*time.Millisecond)
			}
		})
		pass(w, 10*time.Second)
		for range 2 {
			if got := pass(w, time.Minute); got != time.Minute {
				t.Errorf("readable for %v of a minute in which everything changed", got)
			}
			s.failReads(errors.New("no leader"))
			pass(w, 2*time.Second)
			if got := pass(w, time.Minute); got > grace {
				t.Errorf("readable for %v though no read succeeded", got)
			}
			s.failReads(nil)
			pass(w, 5*time.Second)
		}
	})
}
