package selfheal

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/platform"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// starter records the calls, and answers all with err.
type starter struct {
	mu    sync.Mutex
	calls []string // guarded by mu
	err   error
}

func (s *starter) Start(_ context.Context, vmUUID string) (platform.Accepted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, vmUUID)
	return platform.Accepted{}, s.err
}

func (s *starter) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func cvm(name, uuid, status string) platform.Instance {
	return platform.Instance{Name: "demo-" + name, AppID: "app", VMUUID: uuid, Status: status}
}

// TestListingsAreEvaluated runs a Healer of the leader, with a listing every 15 s for 70 s.
func TestListingsAreEvaluated(t *testing.T) {
	own := cvm("coordinator-0", "vm-0", "running")
	for name, c := range map[string]struct {
		list    []platform.Instance
		freeze  bool
		err     error
		want    []string
		outcome []string
	}{
		"stopped":            {list: []platform.Instance{own, cvm("coordinator-1", "vm-1", "stopped")}, want: []string{"vm-1"}, outcome: []string{"done"}},
		"exited":             {list: []platform.Instance{own, cvm("coordinator-1", "vm-1", "exited")}, want: []string{"vm-1"}, outcome: []string{"done"}},
		"an answer was lost": {list: []platform.Instance{own, cvm("coordinator-1", "vm-1", "stopped")}, err: errors.New("reset"), want: []string{"vm-1"}, outcome: []string{"unknown"}},
		"refused":            {list: []platform.Instance{own, cvm("coordinator-1", "vm-1", "stopped")}, err: platform.ErrRefused, want: []string{"vm-1"}, outcome: []string{"failed"}},
		"stopping":           {list: []platform.Instance{own, cvm("coordinator-1", "vm-1", "stopping")}},
		"not listed":         {list: []platform.Instance{own}},
		"two of one name":    {list: []platform.Instance{own, cvm("coordinator-1", "vm-1", "stopped"), cvm("coordinator-1", "vm-9", "stopped")}},
		"another cluster's":  {list: []platform.Instance{own, {Name: "demo-coordinator-1", AppID: "other", VMUUID: "vm-1", Status: "stopped"}}},
		"no coordinator":     {list: []platform.Instance{own, cvm("coordinator-7", "vm-7", "stopped"), cvm("web-0", "vm-8", "stopped")}},
		"frozen":             {list: []platform.Instance{own, cvm("coordinator-1", "vm-1", "stopped")}, freeze: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := storetest.NewMemory()
				if c.freeze {
					if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.OverrideKey(store.OverrideFreeze, store.Everywhere), Value: []byte(`{}`)}); err != nil {
						t.Fatal(err)
					}
				}
				lease, err := store.AcquireBlocking(t.Context(), s, "coordinator-0", nil)
				if err != nil {
					t.Fatal(err)
				}
				views := view.NewWatcher(s, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = views.Run(ctx) })
				calls := &starter{err: c.err}
				var outcomes []string
				h := New(Config{
					Cluster: "demo", AppID: "app", Slot: "coordinator-0", Replicas: 3, Platform: calls, Views: views,
					Connected: func() map[string]bool { return nil }, Called: func(_, outcome string) { outcomes = append(outcomes, outcome) },
					Now: time.Now, Log: slog.New(slog.DiscardHandler),
				})
				running.Go(func() { _ = h.Run(ctx) })
				for range 5 {
					time.Sleep(15 * time.Second)
					h.Note(c.list)
				}
				synctest.Wait()
				cancel()
				running.Wait()
				_ = lease.Release(context.WithoutCancel(t.Context()))
				if got := calls.made(); !slices.Equal(got, c.want) || !slices.Equal(outcomes, c.outcome) {
					t.Errorf("started %q with outcomes %q, want %q and %q", got, outcomes, c.want, c.outcome)
				}
			})
		})
	}
}
