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

// DefaultLeaseTTL is the silence after which a Boot loses its lease. DefaultLeaseTTL is also the
// TTL of the session with which a coordinator holds the leases that it keeps: the minimum of
// Consul. Consul ends a session at twice its TTL after the last renewal, and restarts all TTLs when
// its leader changes.
const DefaultLeaseTTL = 10 * time.Second

// maxReclaim bounds the time in which other coordinators take over a Boot's lease after its keeper
// ended.
const maxReclaim = 5 * time.Second

// reclaim returns how long a lease stays reserved for its Boot after its keeper ended.
func (s *Service) reclaim() time.Duration { return min(s.cfg.LeaseTTL/2, maxReclaim) }

// lease returns the Slot's current lease, by a consistent read. lease returns the zero value if
// there never was a lease.
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
		// An unreadable record names no Boot; its lock still holds.
		s.log.Error("boot lease not readable", "slot", slot, "error", err)
		out.BootLease = store.BootLease{}
	}
	out.Slot = slot
	return out, nil
}

// lockOp returns the Op that takes or keeps the lease of b for session. unlockOp returns the Op
// that gives a lease up, with the reason.
func lockOp(b store.BootLease, session string) (store.Op, error) {
	return leaseOp(store.OpLock, b, session)
}

func unlockOp(lease view.Boot, why store.LeaseState) (store.Op, error) {
	lease.State = why
	return leaseOp(store.OpUnlock, lease.BootLease, lease.Session)
}

func leaseOp(kind store.OpKind, b store.BootLease, session string) (store.Op, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return store.Op{}, fmt.Errorf("encode the lease of %s: %w", b.Slot, err)
	}
	return store.Op{Kind: kind, Key: store.BootLeaseKey(b.Slot), Value: text, Session: session}, nil
}
