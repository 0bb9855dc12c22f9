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

// guardEvery is how often the leader judges all admissions without a change:
// some reasons come with time alone.
const guardEvery = 10 * time.Second

// guardRetry follows an eviction that did not succeed.
const guardRetry = time.Second

// Evict ends everything that the Slot's Boot has: its tokens are revoked, its
// Admission and its lease end in one transaction that also records the decision,
// and with that every coordinator closes its control session and every peer map
// is made without it. A Slot that no Boot holds is fine. fence are the checks of
// a leader, ErrFenced says that it is none any more.
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
	// First what is recorded here alone: were the record gone and this process too,
	// nobody would know what to revoke. Tokens that are issued meanwhile are recorded
	// by changing the Admission, and then this transaction fails.
	if err := s.cfg.Issuer.Revoke(ctx, a.TokenAccessors...); err != nil {
		return false, err
	}
	held, err := s.lease(ctx, slot)
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
	if held.Index != 0 {
		// A keeper may take it in this moment: then it is read again, and given up.
		ops = append(ops, store.Op{Kind: store.OpCheckIndex, Key: store.BootLeaseKey(slot), Index: held.Index})
	}
	if held.Held() {
		unlock, err := unlockOp(held, store.LeaseEnded)
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

// Guard evicts, under the leader's lease, each Boot that may no longer be what it
// was admitted as: at the start, at each change of the records, and with time. It
// returns when ctx ends.
func (s *Service) Guard(ctx context.Context, lease store.Lease) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	records := s.cfg.Views.Subscribe()
	defer records.Close()
	timed := true // the first look and those that no change asks for are at everybody
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
					continue // the Slot is being removed, by an Operation
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
			timed = again != nil // what failed is not forgotten for a change of another
		case <-again:
		case <-tick.C:
		}
	}
}

// guardOne judges once more by what the records of the group say now, at one moment: the
// view may be older than the Admission, and of different moments. It reports whether
// nothing is left to do.
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
