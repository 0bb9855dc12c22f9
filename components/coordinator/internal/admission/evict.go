package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// guardEvery is how often the leader judges all admissions without a change of the records: some
// reasons depend on time alone.
const guardEvery = 10 * time.Second

// guardRetry is the delay after a failed eviction.
const guardRetry = time.Second

// Evict revokes the tokens of the Slot's Boot, and ends its Admission and its lease in one
// transaction that also records the decision. Every coordinator then closes the Boot's control
// session and removes the Boot from the peer maps. A Slot without a Boot is no error. fence are the
// checks of a leader; ErrFenced means that the caller leads no more.
func (s *Service) Evict(ctx context.Context, slot string, code policy.Code, reason string, fence ...store.Op) error {
	var err error
	for range recordTries {
		var done bool
		if done, err = s.evictOnce(ctx, slot, code, reason, fence); done {
			return nil
		}
		if errors.Is(err, store.ErrFenced) || !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	return fmt.Errorf("evict the boot of %s: %w", slot, err)
}

func (s *Service) evictOnce(ctx context.Context, slot string, code policy.Code, reason string, fence []store.Op) (done bool, err error) {
	a, index, err := store.Read[policy.Admission](ctx, s.store, store.AdmissionKey(slot))
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// The tokens are revoked first: their accessors are recorded only in the Admission. After the
	// record and this process were gone, they could not be found. A token that is issued meanwhile
	// changes the Admission, and then this transaction fails.
	if err := s.cfg.Issuer.Revoke(ctx, a.TokenAccessors...); err != nil {
		return false, err
	}
	lease, err := s.lease(ctx, slot)
	if err != nil {
		return false, err
	}
	decision, decisions, err := s.decide(ctx, slot, policy.DecisionEntry{
		What: policy.DecidedEvict, BootID: a.BootID, InstanceID: a.InstanceID, Code: code, Message: reason,
		Revision: a.Revision, PolicyEpoch: a.Epoch, Generation: a.Generation,
	}, nil)
	if err != nil {
		return false, err
	}
	ops := append(append([]store.Op{}, fence...), store.Op{Kind: store.OpDeleteCAS, Key: store.AdmissionKey(slot), Index: index}, decision)
	if lease.Index != 0 {
		// A keeper may take the lease at this moment. The check then fails, and the next try reads
		// the lease.
		ops = append(ops, store.Op{Kind: store.OpCheckIndex, Key: store.BootLeaseKey(slot), Index: lease.Index})
	}
	if lease.Leased() {
		unlock, err := unlockOp(lease, store.LeaseEnded)
		if err != nil {
			return false, err
		}
		ops = append(ops, unlock)
	}
	if err := s.store.Commit(ctx, ops...); err != nil {
		return false, err
	}
	s.unregister(ctx, a)
	s.decided(slot, decisions)
	s.log.Warn("boot evicted", "group", a.Group, "slot", slot, "boot", a.BootID, "instance", a.InstanceID, "code", code, "error", reason)
	return true, nil
}

// Guard evicts, under the leader's lease, each Boot that the policy does not allow any more. Guard
// judges at the start, at each change of the records, and periodically. Guard returns when ctx
// ends.
func (s *Service) Guard(ctx context.Context, lease store.Lease) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	records := s.cfg.Views.Subscribe()
	defer records.Close()
	timed := true // the first round and the periodic rounds judge all admissions
	for {
		v, changed := records.Take()
		var again <-chan time.Time
		if v != nil {
			if !s.releases(ctx, lease, v) {
				again = time.After(guardRetry)
			}
			for slot, a := range v.Admissions {
				if _, concerned := changed.Groups[a.Value.Group]; !timed && !changed.All && !concerned {
					continue
				}
				sp, ok := v.Policies[slot]
				if !ok {
					continue // an Operation removes the Slot
				}
				if v.Unfit(a.Value, sp.Value).Code != "" && ctx.Err() == nil && !s.guardOne(ctx, lease, v, slot) {
					again = time.After(guardRetry)
				}
			}
		}
		timed = true
		select {
		case <-ctx.Done():
			return
		case <-records.C():
			timed = again != nil // after a failure the next round judges all admissions
		case <-again:
		case <-tick.C:
		}
	}
}

// guardOne judges once more with a consistent read of the group's records: the View may be older
// than the Admission, and its records of different times. guardOne reports whether nothing is left
// to do.
func (s *Service) guardOne(ctx context.Context, lease store.Lease, v *view.View, slot string) bool {
	now, err := view.ReadGroup(ctx, s.store, v.Admissions[slot].Value.Group, v, nil)
	if err != nil {
		return false
	}
	admission, admitted := now.Admissions[slot]
	sp, ruled := now.Policies[slot]
	if !admitted || !ruled {
		return !now.Unreadable(store.AdmissionKey(slot)) && !now.Unreadable(store.SlotPolicyKey(slot))
	}
	a := admission.Value
	why := now.Unfit(a, sp.Value)
	if why.Code == "" {
		return true
	}
	if err := s.Evict(ctx, slot, why.Code, why.Message, lease.Fence()...); err != nil && ctx.Err() == nil {
		s.log.Error("boot not evicted", "slot", slot, "boot", a.BootID, "code", why.Code, "error", err)
		return false
	}
	return true
}
