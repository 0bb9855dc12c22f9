package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// DefaultLeaseTTL is how long a Boot must be silent to lose its lease, and the TTL of the
// session with which a coordinator holds the leases that it keeps: the least that Consul
// allows. Consul ends a session at twice its TTL after the last renewal, and starts all
// anew when its leader changes.
const DefaultLeaseTTL = 10 * time.Second

// maxReclaim bounds the time in which those who hear a Boot take its lease again after
// its keeper ended.
const maxReclaim = 5 * time.Second

// reclaim is for how long a lease whose keeper ended is for its Boot alone.
func (s *Service) reclaim() time.Duration { return min(s.cfg.LeaseTTL/2, maxReclaim) }

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
// the one that gives up what is held, and says why.
func lockOp(b store.BootLease, session string) (store.Op, error) {
	return leaseOp(store.OpLock, b, session)
}

func unlockOp(held view.Boot, why store.LeaseState) (store.Op, error) {
	held.State = why
	return leaseOp(store.OpUnlock, held.BootLease, held.Session)
}

func leaseOp(kind store.OpKind, b store.BootLease, session string) (store.Op, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return store.Op{}, fmt.Errorf("encode the lease of %s: %w", b.Slot, err)
	}
	return store.Op{Kind: kind, Key: store.BootLeaseKey(b.Slot), Value: text, Session: session}, nil
}
