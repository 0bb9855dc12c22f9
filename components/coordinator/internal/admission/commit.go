package admission

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// commitTries bounds the attempts when another writer changes the Slot's records. A failed
// transaction does not spend the nonce.
const commitTries = 4

// errAgain: a record of the Slot changed meanwhile; commit reads it again and decides again.
var errAgain = errors.New("the slot's records changed meanwhile")

// commit takes the Slot in one transaction. The transaction checks:
//   - the nonce is unspent
//   - the Slot's policy and the group's accepted policy are unchanged since the appraisal
//   - the Boot and its measurements are not revoked
//   - the leader is the same
//   - the lease of the Slot is free, belongs to this Boot, or may be taken over
//   - no other member of the group took a machine meanwhile, if the group's placement is verified
//
// The transaction also records the decision. If any check fails, it writes nothing.
func (a *attempt) commit(ctx context.Context) *refusal {
	done, refused := a.writing(ctx)
	if refused != nil {
		return refused
	}
	defer done()
	err := errAgain
	for try := 0; try < commitTries && errors.Is(err, errAgain); try++ {
		refused, err = a.commitOnce(ctx)
	}
	if refused == nil && err != nil {
		refused = refuse(codeUnreadable, "take the slot: %v", err).later()
	}
	return refused
}

// admissionStatus is the content of the Slot's records at one try.
type admissionStatus struct {
	before policy.Admission
	index  uint64
	lease  view.Boot
	term   uint64
	// past: this Boot held the Slot before, and has lost it.
	past bool
	// ordered: an Operation exchanges the Boot on record.
	ordered bool
	// machines are the records about machines.
	machines machines
}

// holder returns the Boot on record, whether or not its lease is in force.
func (s admissionStatus) holder() store.BootLease {
	return store.BootLease{Slot: s.before.Slot, BootID: s.before.BootID, InstanceID: s.before.InstanceID}
}

func (a *attempt) commitOnce(ctx context.Context) (*refusal, error) {
	now, refused := a.readStatus(ctx)
	if refused != nil {
		return refused, nil
	}
	if refused := a.mayTake(now); refused != nil {
		a.noteRivals(ctx, now)
		return refused, nil
	}
	if refused := a.mayRunThere(now); refused != nil {
		return refused, nil
	}
	a.admission = a.newAdmission(now)
	t, err := a.transaction(ctx, now)
	if err != nil {
		return nil, err
	}
	if err := store.CommitResolved(ctx, a.store, t.ops, a.applied); err != nil {
		return a.failed(ctx, err)
	}
	a.decided(a.slot, t.decisions)
	if !a.renewal {
		a.revoke(ctx, a.slot, now.before.TokenAccessors)
	}
	return nil, nil
}

func (a *attempt) readStatus(ctx context.Context) (now admissionStatus, refused *refusal) {
	// The decisions are read first. A write of the Admission includes them, so the decisions are
	// never newer than the Admission. Otherwise a Boot whose other request succeeded in between
	// would seem to have lost the Slot.
	decisions, _, err := store.Read[policy.Decisions](ctx, a.store, store.DecisionsKey(a.slot))
	if err != nil && !errors.Is(err, store.ErrNotFound) && len(store.RecordErrors(err)) == 0 {
		return now, refuse(codeUnreadable, "read the slot's decisions: %v", err).later()
	}
	now.before, now.index, err = store.Read[policy.Admission](ctx, a.store, store.AdmissionKey(a.slot))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return now, refuse(codeUnreadable, "read the slot's admission: %v", err).later()
	}
	if now.lease, err = a.lease(ctx, a.slot); err != nil {
		return now, refuse(codeUnreadable, "read the slot's lease: %v", err).later()
	}
	if _, now.term, err = store.Read[store.TermRecord](ctx, a.store, store.TermKey); err != nil {
		return now, refuse(codeUnreadable, "read the term: %v", err).later()
	}
	if refused := a.readMachines(ctx, &now); refused != nil {
		return now, refused
	}
	now.ordered = now.before.BootID != "" && a.bootExpected(now.before.BootID)
	now.past = now.before.BootID != a.bootID && decisions.Had(a.bootID)
	if now.index == 0 && decisions.Holder() == a.bootID {
		now.past = false // no Boot has taken the Slot from it: its record is lost
	}
	return now, nil
}

// mayTake decides whether this Boot may take the Slot now (IDN-03). A replaced or evicted Boot
// cannot return under its old Boot ID.
func (a *attempt) mayTake(now admissionStatus) *refusal {
	lease, holder := now.lease, now.before.BootID
	switch {
	case now.past:
		return refuse(codeStale, "this boot held the slot before and lost it; it may ask again with a new boot key")
	case lease.EndedBy(a.bootID):
		return refuse(codeStale, "this boot said farewell; it may ask again with a new boot key")
	case lease.Leased() && lease.BootID == a.bootID:
		return nil
	case holder != "" && holder != a.bootID && now.before.Contest.Reserved() && !now.ordered:
		return a.conflict(now.holder(), "%s", now.before.Contest.Why(a.slot)).in(reservedRetry)
	case lease.Leased():
		if a.bootExpected(lease.BootID) {
			return nil
		}
		return a.conflict(lease.BootLease, "the holder's lease is given up when no coordinator has received its reports for %v, and ends at most %v after its keeper ended", a.cfg.LeaseTTL, 2*a.cfg.LeaseTTL)
	case now.index == 0 || holder == a.bootID:
		return nil
	}
	return a.mayReplace(now)
}

// conflict names both Boots in the refusal, because either may be the copy.
func (a *attempt) conflict(holder store.BootLease, format string, args ...any) *refusal {
	r := refuse(codeConflict, "boot %.12s of instance %s holds the slot, boot %.12s of instance %s asks for it: "+format,
		append([]any{holder.BootID, holder.InstanceID, a.bootID, a.stated.InstanceID}, args...)...).in(conflictRetry)
	r.holder = holder
	return r
}

// conflictRetry is the retry delay of a Boot that waits for the end of another Boot.
const conflictRetry = 500 * time.Millisecond

// newAdmission returns the record of this Boot. The same Boot keeps its generation and its
// admission time. Another Boot gets a generation above all earlier ones. The lease stores the last
// generation, so this also holds after the loss of the Admission.
func (a *attempt) newAdmission(now admissionStatus) policy.Admission {
	at, before := a.now().UTC(), now.before
	out := policy.Admission{
		Group: a.policy.Group, Slot: a.slot, BootID: a.bootID, InstanceID: a.stated.InstanceID, AppID: a.stated.AppID,
		Revision: a.revision, Epoch: a.policy.Epoch, Generation: max(before.Generation, now.lease.Generation) + 1,
		AdmittedAt: at, ExpiresAt: at.Add(keys.LeafTTL), AttestedAt: at, Claims: a.claims,
		TokenAccessors: before.TokenAccessors, By: a.self, Simulated: a.claims.Simulated,
	}
	out.Claims.ComposeText, out.Claims.AllowedEnvs = "", nil // the policy has their digest and names
	out.Claims.Machine = ""                                  // its record has the keyed hash
	a.renewal = before.BootID == a.bootID
	out.Contest = before.Contest
	if !a.renewal && before.BootID != "" {
		out.Contest = before.Contest.Changed(now.ordered, at)
	}
	if a.renewal {
		out.Generation, out.AdmittedAt = before.Generation, before.AdmittedAt
		out.Revision = a.keptRevision(before.Revision)
		// The Boot uses its tokens until it has received new ones. Tokens of another Boot are dead.
		out.TokensAt = before.TokensAt
	}
	return out
}

// transaction is the operations to commit and the decisions that they record.
type transaction struct {
	ops       []store.Op
	decisions policy.Decisions
}

func (a *attempt) transaction(ctx context.Context, now admissionStatus) (t transaction, err error) {
	spend, err := store.Put(store.NonceKey(hex.EncodeToString(a.nonce)), store.SpentNonce{
		Slot: a.slot, BootID: a.bootID, SpentAt: a.admission.AttestedAt, ExpiresAt: a.expiry.UTC(), By: a.self,
	}, 0)
	if err != nil {
		return t, err
	}
	admit, err := store.Put(store.AdmissionKey(a.slot), a.admission, now.index)
	if err != nil {
		return t, err
	}
	placed, changed, err := a.machineOps(now)
	if err != nil {
		return t, err
	}
	decision, decisions, err := a.decide(ctx, a.slot, policy.DecisionEntry{
		What: policy.DecidedAdmit, BootID: a.bootID, InstanceID: a.stated.InstanceID, Revision: a.admission.Revision,
		PolicyEpoch: a.policy.Epoch, Generation: a.admission.Generation,
	}, a.checks(nil), append(reserveEntry(now.before.Contest, a.admission), changed...)...)
	if err != nil {
		return t, err
	}
	lease, err := a.leaseOps(ctx, now.lease)
	if err != nil {
		return t, err
	}
	t.ops = append([]store.Op{
		spend, admit, decision,
		{Kind: store.OpCheckIndex, Key: store.SlotPolicyKey(a.slot), Index: a.policyIndex},
		{Kind: store.OpCheckIndex, Key: store.TermKey, Index: now.term},
		a.accepted,
	}, slices.Concat(unrevoked(a.admission), lease, placed)...)
	t.decisions = decisions
	return t, nil
}

// leaseOps returns the operations that lock the lease for this Boot: with its keeper's session if
// the Boot holds the lease, else with this coordinator's own session. A lease of another Boot is
// handed over without a gap in which a third Boot could take it. The operations also check the
// index of the lease. The lock alone is not enough: one session holds many leases, and this
// coordinator may have locked this lease for the previous Boot again.
func (a *attempt) leaseOps(ctx context.Context, lease view.Boot) (ops []store.Op, err error) {
	session, by := lease.Session, lease.By
	if lease.Index != 0 {
		ops = append(ops, store.Op{Kind: store.OpCheckIndex, Key: store.BootLeaseKey(a.slot), Index: lease.Index})
	}
	if !lease.LeasedBy(a.bootID) {
		if session, err = a.keeper.open(ctx); err != nil {
			return nil, err
		}
		by = a.self
	}
	if lease.Leased() && lease.BootID != a.bootID {
		free, err := unlockOp(lease, store.LeaseEnded)
		if err != nil {
			return nil, err
		}
		ops = append(ops, free)
	}
	lock, err := lockOp(store.BootLease{
		Slot: a.slot, BootID: a.bootID, InstanceID: a.stated.InstanceID, Generation: a.admission.Generation,
		Since: a.admission.AdmittedAt, By: by,
	}, session)
	return append(ops, lock), err
}

// applied reports whether a transaction of unknown outcome was committed. Only this attempt spends
// its nonce, so the spent nonce proves it.
func (a *attempt) applied(ctx context.Context) (bool, error) {
	spent, _, err := store.Read[store.SpentNonce](ctx, a.store, store.NonceKey(hex.EncodeToString(a.nonce)))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && spent.BootID == a.bootID && spent.By == a.self && spent.SpentAt.Equal(a.admission.AttestedAt), err
}

// failed turns the error of a failed transaction into a refusal, or into errAgain.
func (a *attempt) failed(ctx context.Context, err error) (*refusal, error) {
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if !ok {
		return nil, err
	}
	own := []string{
		store.AdmissionKey(a.slot), store.DecisionsKey(a.slot), store.BootLeaseKey(a.slot),
		store.MachineKey(a.slot), store.MachineTurnKey(a.policy.Group),
	}
	for _, failed := range conflict.Failed {
		if failed.Op.Kind == store.OpLock {
			// The session may have ended: the next try then opens another one.
			if err := a.keeper.renew(ctx); err != nil {
				return nil, err
			}
		}
		switch {
		case failed.Op.Key == store.NonceKey(hex.EncodeToString(a.nonce)):
			return refuse(codeNonce, "the nonce was spent already"), nil
		case !slices.Contains(own, failed.Op.Key):
			// The policy, the leader or a revocation changed, so the appraisal is outdated.
			return refuse(codeUnreadable, "take the slot: %v", err).later(), nil
		}
	}
	return nil, fmt.Errorf("%w: %w", errAgain, err)
}

// mayReplace decides about a Slot that has a Boot on record and no lease in force. Every agent
// reports to every coordinator, so this coordinator knows the live Boots. If only other
// coordinators receive the Boot's reports, they take its lease back before another Boot may have
// the Slot.
func (a *attempt) mayReplace(now admissionStatus) *refusal {
	boot, lease, holder := now.before.BootID, now.lease, now.holder()
	switch {
	case a.bootExpected(boot), lease.EndedBy(boot):
		return nil
	case a.cfg.Sessions.Live(a.slot, boot):
		return a.conflict(holder, "the holder is alive")
	case a.now().Sub(a.cfg.Views.Since()) < a.cfg.Warmup:
		// A coordinator that has just started has not received reports yet.
		return a.conflict(holder, "this coordinator has just started and does not know yet whether the holder is alive").later()
	case lease.BootID == boot && lease.State != store.LeaseSilent && a.keeper.stood(lease) < a.reclaim():
		return a.conflict(holder, "the coordinator that kept the holder's lease ended; another one takes the lease within %v if the holder is alive", a.reclaim())
	}
	return nil
}
