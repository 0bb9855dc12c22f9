package admission

import (
	"context"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/view"
)

const (
	// TTL/roundShare is the time between two rounds over all leases while the records do not change.
	roundShare = 12
	// roundPause is the minimum time between two rounds.
	roundPause = 50 * time.Millisecond
	// keepers is the number of concurrent transactions about leases.
	keepers = 4
)

// keeper holds the leases that this coordinator keeps, all with one session. Safe for concurrent
// use.
type keeper struct {
	cfg *Config
	// making has one place, for the goroutine that opens the session.
	making chan struct{}

	mu        sync.Mutex
	session   string           // guarded by mu; "": there is none
	ended     map[string]bool  // guarded by mu; sessions of earlier processes of this coordinator that were ended
	seen      map[string]*seen // guarded by mu; by Slot
	lastRound time.Time        // guarded by mu; the last round over all leases
}

func newKeeper(cfg *Config) *keeper {
	return &keeper{cfg: cfg, making: make(chan struct{}, 1), seen: map[string]*seen{}, ended: map[string]bool{}}
}

// keep carries out the due steps of v, for all groups or for the changed ones.
func (k *keeper) keep(ctx context.Context, v *view.View, every bool, changed func(group string) bool) {
	due := k.due(v, every, changed)
	if len(due) == 0 {
		return
	}
	session, err := k.open(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.cfg.Log.Warn("no session for the leases of boots", "error", err)
		}
		return
	}
	duties := make([]duty, 0, len(due))
	for _, w := range due {
		d, err := w.duty(k.cfg.Slot, session, k.cfg.Now())
		if err != nil {
			k.cfg.Log.Error("lease of a boot not kept", "slot", w.slot, "error", err)
			continue
		}
		duties = append(duties, d)
	}
	places := make(chan struct{}, keepers)
	var all sync.WaitGroup
	defer all.Wait()
	for _, batch := range batches(duties, keepOps) {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			_ = k.cfg.Panics.Do("leases", func() error { // the panic was logged, and the next round retries these leases
				k.commit(ctx, batch)
				return nil
			})
		})
	}
}

// KeepLeases keeps the leases of the Boots that report to this coordinator and that no other
// coordinator keeps. When ctx ends, it gives all its leases up at once, and the other coordinators
// take them. Every coordinator runs it.
func (s *Service) KeepLeases(ctx context.Context) error {
	defer s.keeper.end(ctx)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also when a panic ends the loop
	renewing.Go(func() { s.keeper.renewing(ctx) })
	records := s.cfg.Views.Subscribe()
	defer records.Close()
	tick := time.NewTicker(s.cfg.LeaseTTL / roundShare)
	defer tick.Stop()
	every := true // a Boot falls silent, or reports again, without a change of the records
	for {
		if v, changed := records.Take(); v != nil {
			s.keeper.endPast(ctx, v)
			s.keeper.keep(ctx, v, every || changed.All, func(group string) bool { _, in := changed.Groups[group]; return in })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(roundPause, s.cfg.LeaseTTL/roundShare)):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-records.C():
			// A Boot whose lease lapsed must not wait for the tick.
			every = false
		case <-tick.C:
			every = true
		}
	}
}
