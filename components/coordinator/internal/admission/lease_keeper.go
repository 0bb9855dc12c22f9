package admission

import (
	"context"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/view"
)

const (
	// lookShare of the TTL passes between two looks at all leases while nothing changes.
	lookShare = 12
	// lookPause is the least time between two looks.
	lookPause = 50 * time.Millisecond
	// keepers is how many transactions about leases are under way at once.
	keepers = 4
)

// keeper holds the leases of the Boots that this coordinator keeps, all by one session.
// Safe for concurrent use.
type keeper struct {
	cfg *Config
	// making holds one place, for who makes the session.
	making chan struct{}

	mu      sync.Mutex
	session string           // guarded by mu; "": there is none
	ended   map[string]bool  // guarded by mu; sessions of this coordinator's past that were ended
	seen    map[string]*seen // guarded by mu; by Slot
	looked  time.Time        // guarded by mu; the last look at all
}

func newKeeper(cfg *Config) *keeper {
	return &keeper{cfg: cfg, making: make(chan struct{}, 1), seen: map[string]*seen{}, ended: map[string]bool{}}
}

// keep does what is due by v, for all groups or those that changed.
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
			_ = k.cfg.Panics.Do("leases", func() error { // its panic was logged, and the next look keeps these leases
				k.commit(ctx, batch)
				return nil
			})
		})
	}
}

// KeepLeases keeps the leases of those Boots that this coordinator hears from and no
// other one keeps, until ctx ends; then it gives all up at once, and the others take
// them. Every coordinator does so.
func (s *Service) KeepLeases(ctx context.Context) error {
	defer s.keeper.end(ctx)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also where a panic ends the loop
	renewing.Go(func() { s.keeper.renewing(ctx) })
	records := s.cfg.Views.Subscribe()
	defer records.Close()
	tick := time.NewTicker(s.cfg.LeaseTTL / lookShare)
	defer tick.Stop()
	every := true // Boots fall silent, and are heard again, without a change of the records
	for {
		if v, changed := records.Take(); v != nil {
			s.keeper.endPast(ctx, v)
			s.keeper.keep(ctx, v, every || changed.All, func(group string) bool { _, in := changed.Groups[group]; return in })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(lookPause, s.cfg.LeaseTTL/lookShare)):
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
