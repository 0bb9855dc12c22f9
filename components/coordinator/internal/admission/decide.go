package admission

import (
	"context"
	"errors"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// decide returns the Op that adds e, and the entries that follow from it, to the Slot's decisions.
// decide adds the checks that led to e if there are some.
func (s *Service) decide(ctx context.Context, slot string, e policy.DecisionEntry, checks []policy.Check, more ...policy.DecisionEntry) (store.Op, policy.Decisions, error) {
	before, index, err := store.Read[policy.Decisions](ctx, s.store, store.DecisionsKey(slot))
	switch {
	case errors.Is(err, store.ErrNotFound):
	case len(store.RecordErrors(err)) > 0:
		// A damaged record must not keep Boots out, so its chain starts again.
		s.log.Error("decisions not readable; their chain starts again", "slot", slot, "code", policy.CodeAuditChainBroken, "error", err)
		before = policy.Decisions{}
	case err != nil:
		return store.Op{}, before, err
	default:
		if err := before.Verify(); err != nil {
			s.log.Error("decisions were edited", "slot", slot, "code", policy.CodeAuditChainBroken, "error", err)
		}
	}
	e.At, e.By = s.now().UTC(), s.self
	after := before.Append(slot, e)
	if checks != nil {
		after.Checks, after.ChecksBootID, after.ChecksAt = checks, e.BootID, e.At
	}
	for _, next := range more {
		next.At, next.By = e.At, s.self
		after = after.Append(slot, next)
	}
	op, err := store.Put(store.DecisionsKey(slot), after, index)
	return op, after, err
}

// decided logs the recorded decision, with the digest that the record must have.
func (s *Service) decided(slot string, d policy.Decisions) {
	e := d.Last()
	s.log.Info("decision recorded", "slot", slot, "what", e.What, "boot", e.BootID, "code", e.Code, "number", e.Number, "times", e.Times, "digest", e.Digest())
}

// recordTries bounds the attempts to write a record that has other writers.
const recordTries = 5

// recordDecision writes a decision without any other record.
func (s *Service) recordDecision(ctx context.Context, slot string, e policy.DecisionEntry, checks []policy.Check) error {
	var err error
	for range recordTries {
		op, after, readErr := s.decide(ctx, slot, e, checks)
		if readErr != nil {
			return readErr
		}
		if err = s.store.Commit(ctx, op); err == nil {
			s.decided(slot, after)
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return err
}

// RecordRenewRefused records that the holder of a Slot did not get fresh credentials.
func (s *Service) RecordRenewRefused(ctx context.Context, a policy.Admission, code policy.Code, message string) error {
	return s.recordDecision(ctx, a.Slot, policy.DecisionEntry{
		What: policy.DecidedRenewRefused, BootID: a.BootID, InstanceID: a.InstanceID, Code: code, Message: message,
		Revision: a.Revision, PolicyEpoch: a.Epoch, Generation: a.Generation,
	}, nil)
}

// noteDecision records why genuine evidence did not lead to an admission.
func (a *attempt) noteDecision(ctx context.Context, r *refusal) {
	if !r.verified || a.slot == "" {
		return
	}
	e := policy.DecisionEntry{
		What: policy.DecidedRefuse, BootID: a.bootID, InstanceID: a.stated.InstanceID, Code: r.code, Message: r.message,
		Revision: a.revision, PolicyEpoch: a.policy.Epoch,
	}
	if r.code == codeConflict {
		e.What, e.HolderBootID, e.HolderInstanceID = policy.DecidedConflict, r.holder.BootID, r.holder.InstanceID
	}
	if err := a.recordDecision(ctx, a.slot, e, a.checks(r)); err != nil {
		a.log.Warn("decision not recorded", "slot", a.slot, "error", err)
	}
}

// checks returns the checks of this attempt; r is nil if the attempt succeeded.
func (a *attempt) checks(r *refusal) []policy.Check {
	tcb := a.claims.TCB.Status
	if tcb == "" {
		tcb = "not evaluated"
	}
	if a.claims.Simulated {
		tcb = "simulated hardware"
	}
	details := map[policy.CheckName]string{
		policy.CheckTCB: tcb, policy.CheckInstance: a.stated.InstanceID, policy.CheckKeyProvider: a.claims.KeyProviderName,
		policy.CheckRevision: a.revision, policy.CheckCompose: a.stated.ComposeHash, policy.CheckMachine: shortMachine(a.machine()),
	}
	if r == nil {
		details[policy.CheckLease] = "taken"
		if a.renewal {
			details[policy.CheckLease] = "held by this boot"
		}
		return policy.Checks("", "", details)
	}
	return policy.Checks(r.code, r.message, details)
}
