package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// DefaultLeaseTTL of a Boot's lease, the least that Consul allows. Consul ends a
// session at twice its TTL after the last renewal, and starts all anew when its
// leader changes: agents of a lone coordinator that restarts have 20 s to come
// back, and an unplanned reboot waits for 20 s.
const DefaultLeaseTTL = 10 * time.Second

const (
	// renewShare of the TTL passes between two renewals of one coordinator, and
	// lookShare between two looks at who is due.
	renewShare = 3
	lookShare  = 12
	// keepers renew at once, so that a thousand Slots take a second.
	keepers = 16
	// sessionLimit bounds the end of a session that is not needed any more.
	sessionLimit = 3 * time.Second
)

// renewal is when this coordinator renewed a session last.
type renewal struct {
	session string
	at      time.Time
}

// lease is the Slot's lease now, by a consistent read; its zero value when there never
// was one.
func (s *Service) lease(ctx context.Context, slot string) (view.Boot, error) {
	entry, err := s.store.Get(ctx, store.BootLeaseKey(slot))
	if errors.Is(err, store.ErrNotFound) {
		return view.Boot{}, nil
	}
	if err != nil {
		return view.Boot{}, err
	}
	out := view.Boot{Session: entry.Session, Index: entry.Index}
	if err := json.Unmarshal(entry.Value, &out.BootLease); err != nil {
		// A record that cannot be read names nobody; its lock holds all the same.
		s.log.Error("boot lease not readable", "slot", slot, "error", err)
		out.BootLease = store.BootLease{}
	}
	out.Slot = slot
	return out, nil
}

// lockOp makes the Op that takes or keeps the lease of b for session, and unlockOp
// the one that gives it up.
func lockOp(b store.BootLease, session string) (store.Op, error) {
	return leaseOp(store.OpLock, b, session)
}

func unlockOp(held view.Boot) (store.Op, error) {
	return leaseOp(store.OpUnlock, held.BootLease, held.Session)
}

func leaseOp(kind store.OpKind, b store.BootLease, session string) (store.Op, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return store.Op{}, fmt.Errorf("encode the lease of %s: %w", b.Slot, err)
	}
	return store.Op{Kind: kind, Key: store.BootLeaseKey(b.Slot), Value: text, Session: session}, nil
}

// newSession makes the session of one Boot.
func (s *Service) newSession(ctx context.Context, slot, bootID string) (string, error) {
	return s.store.CreateSession(ctx, fmt.Sprintf("cadre boot %.12s of %s", bootID, slot), s.cfg.LeaseTTL)
}

// endSession ends one that nobody needs any more; if it cannot, its TTL does.
func (s *Service) endSession(ctx context.Context, slot, session string) {
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionLimit)
	defer cancel()
	if err := s.store.DestroySession(ctx, session); err != nil {
		s.log.Warn("session of a boot not ended; it ends by itself", "slot", slot, "error", err)
	}
}

// KeepLeases renews the leases of those Boots that this coordinator hears from,
// until ctx ends. Every coordinator does so: one that restarts takes no Boot's
// lease with it.
func (s *Service) KeepLeases(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.LeaseTTL / lookShare)
	defer tick.Stop()
	for {
		v, changed := s.cfg.Views.Latest()
		if v != nil {
			s.keep(ctx, v)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			// A Boot whose lease lapsed must not wait for the tick.
		case <-tick.C:
		}
	}
}

// keep renews what is due.
func (s *Service) keep(ctx context.Context, v *view.View) {
	due := make(chan policy.Admission)
	var all sync.WaitGroup
	defer all.Wait()
	defer close(due)
	started := 0
	for slot, a := range v.Admissions {
		if !s.due(slot, a.Value, v.Boots[slot]) {
			continue
		}
		if started < keepers {
			started++
			all.Go(func() {
				for a := range due {
					s.keepOne(ctx, a, v.Boots[a.Slot], v.Admissions[a.Slot].Index)
				}
			})
		}
		select {
		case due <- a.Value:
		case <-ctx.Done():
			return
		}
	}
}

// due reports whether the Boot is alive here and nothing was done for its lease
// for a third of its TTL, and notes that it is done now.
func (s *Service) due(slot string, a policy.Admission, held view.Boot) bool {
	if !s.cfg.Sessions.Live(slot, a.BootID) || held.Held() && held.BootID != a.BootID {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, now := s.renewed[slot], s.now()
	if last.session == held.Session && now.Sub(last.at) < s.cfg.LeaseTTL/renewShare {
		return false
	}
	s.renewed[slot] = renewal{session: held.Session, at: now}
	return true
}

func (s *Service) keepOne(ctx context.Context, a policy.Admission, held view.Boot, index uint64) {
	err := store.ErrNoSession
	if held.Held() {
		err = s.store.RenewSession(ctx, held.Session)
	}
	if errors.Is(err, store.ErrNoSession) {
		err = s.takeAgain(ctx, a, index)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("lease of a boot not renewed", "slot", a.Slot, "boot", a.BootID, "error", err)
	}
}

// takeAgain takes the lapsed lease again for a Boot that is alive and that no
// other one has replaced: all coordinators, or the network, were away for longer
// than the lease. The lock and the index of the Admission make sure of it.
func (s *Service) takeAgain(ctx context.Context, a policy.Admission, index uint64) error {
	session, err := s.newSession(ctx, a.Slot, a.BootID)
	if err != nil {
		return err
	}
	lock, err := lockOp(store.BootLease{
		Slot: a.Slot, BootID: a.BootID, InstanceID: a.InstanceID, Generation: a.Generation, Since: s.now().UTC(), By: s.self,
	}, session)
	if err == nil {
		err = s.store.Commit(ctx, append(unrevoked(a), lock, store.Op{Kind: store.OpCheckIndex, Key: store.AdmissionKey(a.Slot), Index: index})...)
	}
	switch {
	case err == nil:
		s.log.Info("lapsed lease of a live boot taken again", "slot", a.Slot, "boot", a.BootID)
		return nil
	case errors.Is(err, store.ErrConflict):
		// Another coordinator was faster, or another Boot, or it is revoked: the next view
		// tells.
		err = nil
	}
	s.endSession(ctx, a.Slot, session)
	return err
}
