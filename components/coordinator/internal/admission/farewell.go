package admission

import (
	"context"
	"errors"
	"fmt"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Farewell gives up the lease of a Boot that reports its end, so that its successor can start at
// once. The Admission stays until then. The ended Boot gets no lease and no credentials any more. A
// Boot that does not hold the Slot is no error. The caller has authenticated the Boot.
func (s *Service) Farewell(ctx context.Context, group, slot, bootID string) error {
	if v, _ := s.cfg.Views.Latest(); v != nil && v.Boots[slot].EndedBy(bootID) {
		return nil // recorded already; a repeated farewell costs no reads
	}
	err := s.farewellOnce(ctx, group, slot, bootID)
	for try := 1; try < recordTries && errors.Is(err, store.ErrConflict); try++ {
		// The session may have ended: the next try then opens another one.
		if err = s.keeper.renew(ctx); err == nil {
			err = s.farewellOnce(ctx, group, slot, bootID)
		}
	}
	if err != nil {
		return fmt.Errorf("give up the lease of %s: %w", slot, err)
	}
	return nil
}

func (s *Service) farewellOnce(ctx context.Context, group, slot, bootID string) error {
	a, index, err := store.Read[policy.Admission](ctx, s.store, store.AdmissionKey(slot))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case a.BootID != bootID || a.Group != group:
		return nil
	}
	lease, err := s.lease(ctx, slot)
	if err != nil || lease.EndedBy(bootID) || lease.Leased() && lease.BootID != bootID {
		return err
	}
	ops := []store.Op{{Kind: store.OpCheckIndex, Key: store.AdmissionKey(slot), Index: index}}
	if !lease.Leased() {
		// Only the holder of the lock can record in it that the Boot has ended.
		if lease.Session, err = s.keeper.open(ctx); err != nil {
			return err
		}
		lease.BootLease = store.BootLease{
			Slot: slot, BootID: bootID, InstanceID: a.InstanceID, Generation: a.Generation, Since: s.now().UTC(), By: s.self,
		}
		lock, err := lockOp(lease.BootLease, lease.Session)
		if err != nil {
			return err
		}
		ops = append(ops, lock)
	}
	unlock, err := unlockOp(lease, store.LeaseEnded)
	if err != nil {
		return err
	}
	if err := s.store.Commit(ctx, append(ops, unlock)...); err != nil {
		return err
	}
	s.log.Info("boot said farewell, its lease is given up", "slot", slot, "boot", bootID)
	return nil
}
