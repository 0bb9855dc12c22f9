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

const (
	// reservedRetry is the retry delay of a Boot that asks for a reserved Slot: only an operator can
	// release the hold.
	reservedRetry = 10 * time.Second
	// freshness bounds how long a dead Boot may look alive to a coordinator: reports count for 12
	// s, and the same time again covers a slow coordinator.
	freshness = 24 * time.Second
)

// claimed records since when other Boots ask for a Slot that a Boot holds.
type claimed struct {
	holder string
	since  time.Time
}

// noteRivals records that two Boots of the Slot are alive, if this refused attempt shows it.
// noteRivals never changes the answer.
func (a *attempt) noteRivals(ctx context.Context, now admissionStatus) {
	switch {
	case now.past:
		a.noteReturned(ctx, a.slot, a.bootID)
	case now.lease.Leased() && now.lease.BootID == now.before.BootID && a.heardAfterClaim(now.lease.BootID):
		a.recordRivals(ctx, a.slot, func(policy.Admission) (string, bool) { return a.bootID, true })
	}
}

// heardAfterClaim reports whether the holder sent a report after the first other Boot asked for its
// Slot here.
func (a *attempt) heardAfterClaim(holder string) bool {
	at := a.now()
	a.mu.Lock()
	first := a.contested[a.slot]
	if first.holder != holder {
		first = claimed{holder: holder, since: at}
		a.contested[a.slot] = first
	}
	a.mu.Unlock()
	return policy.BothAlive(first.since, at, freshness) && a.cfg.Sessions.Live(a.slot, holder)
}

// Ended returns why the Boot has lost the Slot, see the function Ended. Ended records the return of
// a former holder that another Boot replaced, because that Boot is alive.
func (s *Service) Ended(ctx context.Context, group, slot, bootID string) (policy.Decision, error) {
	d, back, err := ended(ctx, s.store, group, slot, bootID)
	if back {
		s.noteReturned(ctx, slot, bootID)
	}
	return d, err
}

// noteReturned records that a former holder of the Slot came back. The key of the connection
// authenticates the caller. A Boot that never held the Slot causes no write.
func (s *Service) noteReturned(ctx context.Context, slot, bootID string) {
	decisions, _, err := store.Read[policy.Decisions](ctx, s.store, store.DecisionsKey(slot))
	if err != nil {
		return
	}
	s.recordRivals(ctx, slot, func(a policy.Admission) (string, bool) { return bootID, policy.CameBack(decisions, a, bootID) })
}

// recordRivals records in the Slot's Admission, with a decision, that both the holder and the Boot named by
// rival are alive.
func (s *Service) recordRivals(ctx context.Context, slot string, rival func(policy.Admission) (bootID string, alive bool)) {
	err := s.amend(ctx, slot, nil, func(a *policy.Admission) (policy.DecisionEntry, bool) {
		bootID, alive := rival(*a)
		before := a.Contest
		if !alive || before.Rival != "" {
			return policy.DecisionEntry{}, false
		}
		a.Contest = before.Met(bootID, s.now())
		return policy.DecisionEntry{
			What: policy.DecidedMet, BootID: bootID, HolderBootID: a.BootID, HolderInstanceID: a.InstanceID,
			Code: codeConflict, Message: "two boots of the slot's instance are alive", Generation: a.Generation,
		}, true
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("two live boots not recorded", "slot", slot, "error", err)
	}
}

// amend changes the Slot's Admission by check-and-set. The same transaction records the decision
// that change returns, a second decision if the change holds the Slot, and the operations of more.
// change reports whether there is anything to write.
func (s *Service) amend(ctx context.Context, slot string, more []store.Op, change func(*policy.Admission) (policy.DecisionEntry, bool)) error {
	err := error(store.ErrConflict)
	for try := 0; try < recordTries && errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrFenced); try++ {
		err = s.amendOnce(ctx, slot, more, change)
	}
	return err
}

func (s *Service) amendOnce(ctx context.Context, slot string, more []store.Op, change func(*policy.Admission) (policy.DecisionEntry, bool)) error {
	a, index, err := store.Read[policy.Admission](ctx, s.store, store.AdmissionKey(slot))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var ops []store.Op
	var decisions policy.Decisions
	before := a.Contest
	if entry, changed := change(&a); err == nil && changed {
		put, err := store.Put(store.AdmissionKey(slot), a, index)
		if err != nil {
			return err
		}
		decision, after, err := s.decide(ctx, slot, entry, nil, reserveEntry(before, a)...)
		if err != nil {
			return err
		}
		ops, decisions = []store.Op{put, decision}, after
	}
	if ops = append(ops, more...); len(ops) == 0 {
		return nil
	}
	if err := s.store.Commit(ctx, ops...); err != nil {
		return err
	}
	if decisions.Slot != "" {
		s.decided(slot, decisions)
	}
	return nil
}

// reserveEntry returns the decision that the Slot is now reserved, if it was not reserved before.
func reserveEntry(before policy.Contest, a policy.Admission) []policy.DecisionEntry {
	if before.Reserved() || !a.Contest.Reserved() {
		return nil
	}
	return []policy.DecisionEntry{{
		What: policy.DecidedReserve, BootID: a.BootID, InstanceID: a.InstanceID, HolderBootID: a.BootID, HolderInstanceID: a.InstanceID,
		Code: codeConflict, Message: a.Contest.Why(a.Slot), Generation: a.Generation,
	}}
}

// release carries out an operator's request under the leader's lease: it resets the Slot's Contest.
// The same transaction deletes the request.
func (s *Service) release(ctx context.Context, lease store.Lease, request store.QueueRequest, index uint64) error {
	more := append([]store.Op{{Kind: store.OpDeleteCAS, Key: store.QueueKey(request.ID), Index: index}}, lease.Fence()...)
	err := s.amend(ctx, request.Slot, more, func(a *policy.Admission) (policy.DecisionEntry, bool) {
		if a.BootID == "" || a.Contest == (policy.Contest{}) {
			return policy.DecisionEntry{}, false
		}
		a.Contest = policy.Contest{}
		return policy.DecisionEntry{
			What: policy.DecidedRelease, BootID: a.BootID, InstanceID: a.InstanceID, Generation: a.Generation,
			Message: fmt.Sprintf("released by %s: %s", request.By, request.Reason),
		}, true
	})
	if err != nil {
		return fmt.Errorf("release slot %s: %w", request.Slot, err)
	}
	s.log.Info("slot released", "slot", request.Slot, "operator", request.By, "reason", request.Reason)
	return nil
}

// releases carries out the waiting requests, and reports whether all are done.
func (s *Service) releases(ctx context.Context, lease store.Lease, v *view.View) bool {
	done := true
	for _, q := range v.Queue {
		if q.Value.Kind != store.RequestRelease || q.Value.Check() != nil || ctx.Err() != nil {
			continue
		}
		// A conflict means that the request was carried out already and the View is older.
		if err := s.release(ctx, lease, q.Value, q.Index); err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
			s.log.Error("slot not released", "slot", q.Value.Slot, "error", err)
			done = false
		}
	}
	return done
}
