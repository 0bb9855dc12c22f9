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

// commitTries bounds how often a transaction is made anew because another writer
// of the Slot's records was faster. The nonce is spent by none that fails.
const commitTries = 4

// errAgain: a record of the Slot was written meanwhile; read again and decide anew.
var errAgain = errors.New("the slot's records changed meanwhile")

// commit takes the Slot in one transaction: the nonce was not spent, the policy and what
// the leader accepted for the group are still those that were appraised, nobody revoked
// the Boot or what it runs, no other leader came, and the lease of the
// Slot's Boot is free, this Boot's already, or may be taken over. In the same
// transaction stands the decision. If any check fails nothing is written.
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
		refused = refuse(codeGate, "take the slot: %v", err).later()
	}
	return refused
}

// standing is what the Slot's records say at one try.
type standing struct {
	before policy.Admission
	index  uint64
	held   view.Boot
	term   uint64
	// past: this Boot was the Slot before, and is not any more.
	past bool
	// ordered: an Operation exchanges the Boot on record.
	ordered bool
}

// holder is the Boot on record, whether or not its lease is in force.
func (s standing) holder() store.BootLease {
	return store.BootLease{Slot: s.before.Slot, BootID: s.before.BootID, InstanceID: s.before.InstanceID}
}

func (a *attempt) commitOnce(ctx context.Context) (*refusal, error) {
	now, refused := a.readStanding(ctx)
	if refused != nil {
		return refused, nil
	}
	if refused := a.mayTake(now); refused != nil {
		a.noteRivals(ctx, now)
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

func (a *attempt) readStanding(ctx context.Context) (now standing, refused *refusal) {
	// The decisions come first: they are written with the Admission, so what they say
	// is not newer than it, and a Boot whose other request succeeded in between does
	// not read as one that lost the Slot.
	decisions, _, err := store.Read[policy.Decisions](ctx, a.store, store.DecisionsKey(a.slot))
	if err != nil && !errors.Is(err, store.ErrNotFound) && len(store.RecordErrors(err)) == 0 {
		return now, refuse(codeGate, "read the slot's decisions: %v", err).later()
	}
	now.before, now.index, err = store.Read[policy.Admission](ctx, a.store, store.AdmissionKey(a.slot))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return now, refuse(codeGate, "read the slot's admission: %v", err).later()
	}
	if now.held, err = a.lease(ctx, a.slot); err != nil {
		return now, refuse(codeGate, "read the slot's lease: %v", err).later()
	}
	if _, now.term, err = store.Read[store.TermRecord](ctx, a.store, store.TermKey); err != nil {
		return now, refuse(codeGate, "read the term: %v", err).later()
	}
	now.ordered = now.before.BootID != "" && a.bootExpected(now.before.BootID)
	now.past = now.before.BootID != a.bootID && decisions.Had(a.bootID)
	if now.index == 0 && decisions.Holder() == a.bootID {
		now.past = false // nobody took the Slot from it: its record is lost
	}
	return now, nil
}

// mayTake decides whether this Boot may be the Slot now (IDN-03). One that was
// replaced or evicted does not come back as who it was: its name is spent.
func (a *attempt) mayTake(now standing) *refusal {
	held, holder := now.held, now.before.BootID
	switch {
	case now.past:
		return refuse(codeStale, "this boot was the slot before and lost it; its name is spent, a new boot key may ask")
	case held.EndedBy(a.bootID):
		return refuse(codeStale, "this boot said farewell; its name is spent, a new boot key may ask")
	case held.Held() && held.BootID == a.bootID:
		return nil
	case holder != "" && holder != a.bootID && now.before.Contest.Held() && !now.ordered:
		return a.conflict(now.holder(), "%s", now.before.Contest.Why(a.slot)).in(heldRetry)
	case held.Held():
		if a.bootExpected(held.BootID) {
			return nil
		}
		return a.conflict(held.BootLease, "its lease is given up when no coordinator has heard from it for %v, and ends at most %v after its keeper did", a.cfg.LeaseTTL, 2*a.cfg.LeaseTTL)
	case now.index == 0 || holder == a.bootID:
		return nil
	}
	return a.mayReplace(now)
}

// conflict names both Boots: each may be the one that should not be.
func (a *attempt) conflict(holder store.BootLease, format string, args ...any) *refusal {
	r := refuse(codeConflict, "boot %.12s of instance %s holds the slot, boot %.12s of instance %s asks for it: "+format,
		append([]any{holder.BootID, holder.InstanceID, a.bootID, a.stated.InstanceID}, args...)...).in(conflictRetry)
	r.holder = holder
	return r
}

// conflictRetry is how soon a Boot asks again that waits for another one's end.
const conflictRetry = 500 * time.Millisecond

// newAdmission is the record of this Boot. The same Boot keeps its generation and
// its beginning; another one's is higher than all before, also than that of a
// Boot whose record was removed: the lease remembers it.
func (a *attempt) newAdmission(now standing) policy.Admission {
	at, before := a.now().UTC(), now.before
	out := policy.Admission{
		Group: a.policy.Group, Slot: a.slot, BootID: a.bootID, InstanceID: a.stated.InstanceID, AppID: a.stated.AppID,
		Revision: a.revision, Epoch: a.policy.Epoch, Generation: max(before.Generation, now.held.Generation) + 1,
		AdmittedAt: at, ExpiresAt: at.Add(keys.LeafTTL), AttestedAt: at, Claims: a.claims,
		TokenAccessors: before.TokenAccessors, By: a.self, Simulated: a.claims.Simulated,
	}
	out.Claims.ComposeText, out.Claims.AllowedEnvs = "", nil // the policy has their digest and names
	a.renewal = before.BootID == a.bootID
	out.Contest = before.Contest
	if !a.renewal && before.BootID != "" {
		out.Contest = before.Contest.Changed(now.ordered, at)
	}
	if a.renewal {
		out.Generation, out.AdmittedAt = before.Generation, before.AdmittedAt
		out.Revision = a.keptRevision(before.Revision)
		// It uses them until it has taken new ones; another Boot's are nobody's any more.
		out.TokensAt = before.TokensAt
	}
	return out
}

// transaction is what is committed, and what follows from it.
type transaction struct {
	ops       []store.Op
	decisions policy.Decisions
}

func (a *attempt) transaction(ctx context.Context, now standing) (t transaction, err error) {
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
	decision, decisions, err := a.decide(ctx, a.slot, policy.DecisionEntry{
		What: policy.DecidedAdmit, BootID: a.bootID, InstanceID: a.stated.InstanceID, Revision: a.admission.Revision,
		PolicyEpoch: a.policy.Epoch, Generation: a.admission.Generation,
	}, a.checks(nil), holdEntry(now.before.Contest, a.admission)...)
	if err != nil {
		return t, err
	}
	lease, err := a.leaseOps(ctx, now.held)
	if err != nil {
		return t, err
	}
	t.ops = append([]store.Op{
		spend, admit, decision,
		{Kind: store.OpCheckIndex, Key: store.SlotPolicyKey(a.slot), Index: a.policyIndex},
		{Kind: store.OpCheckIndex, Key: store.TermKey, Index: now.term},
		a.accepted,
	}, append(unrevoked(a.admission), lease...)...)
	t.decisions = decisions
	return t, nil
}

// leaseOps lock the lease for this Boot: for its keeper's session, if it holds it
// already, else for this coordinator's own. From another Boot it is handed over, without
// a moment in which a third one could take it. They pass while the lease is as it was
// read: the lock alone would not tell, for one session holds the leases of many, and this
// coordinator may have taken this one again meanwhile for the Boot before.
func (a *attempt) leaseOps(ctx context.Context, held view.Boot) (ops []store.Op, err error) {
	session, by := held.Session, held.By
	if held.Index != 0 {
		ops = append(ops, store.Op{Kind: store.OpCheckIndex, Key: store.BootLeaseKey(a.slot), Index: held.Index})
	}
	if !held.HeldBy(a.bootID) {
		if session, err = a.keeper.open(ctx); err != nil {
			return nil, err
		}
		by = a.self
	}
	if held.Held() && held.BootID != a.bootID {
		free, err := unlockOp(held, store.LeaseEnded)
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

// applied reads back whether a transaction of unknown outcome is there: nobody
// else spends this nonce.
func (a *attempt) applied(ctx context.Context) (bool, error) {
	spent, _, err := store.Read[store.SpentNonce](ctx, a.store, store.NonceKey(hex.EncodeToString(a.nonce)))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && spent.BootID == a.bootID && spent.By == a.self && spent.SpentAt.Equal(a.admission.AttestedAt), err
}

// failed reads what a failed transaction means.
func (a *attempt) failed(ctx context.Context, err error) (*refusal, error) {
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if !ok {
		return nil, err
	}
	own := []string{store.AdmissionKey(a.slot), store.DecisionsKey(a.slot), store.BootLeaseKey(a.slot)}
	for _, failed := range conflict.Failed {
		if failed.Op.Kind == store.OpLock {
			// Perhaps the session has ended: the next try then makes another one.
			if err := a.keeper.renew(ctx); err != nil {
				return nil, err
			}
		}
		switch {
		case failed.Op.Key == store.NonceKey(hex.EncodeToString(a.nonce)):
			return refuse(codeNonce, "the nonce was spent already"), nil
		case !slices.Contains(own, failed.Op.Key):
			// The policy or the leader changed, or there is a revocation: what was appraised does not hold any more.
			return refuse(codeGate, "take the slot: %v", err).later(), nil
		}
	}
	return nil, fmt.Errorf("%w: %w", errAgain, err)
}

// mayReplace decides about a Slot whose lease is free, or never was, though it has a Boot
// on record. Every agent reports to every coordinator, so a Boot that is alive is known
// here; one that only others hear gets its lease back from them before anybody else may
// take it.
func (a *attempt) mayReplace(now standing) *refusal {
	boot, held, holder := now.before.BootID, now.held, now.holder()
	switch {
	case a.bootExpected(boot), held.EndedBy(boot):
		return nil
	case a.cfg.Sessions.Live(a.slot, boot):
		return a.conflict(holder, "it is alive")
	case a.now().Sub(a.cfg.Views.Since()) < a.cfg.Warmup:
		// A coordinator that just started has not heard from anybody yet.
		return a.conflict(holder, "this coordinator has just started and does not know yet whether it is alive").later()
	case held.BootID == boot && held.State != store.LeaseSilent && a.keeper.stood(held) < a.reclaim():
		return a.conflict(holder, "the coordinator that kept its lease ended, and one that hears it takes it again within %v", a.reclaim())
	}
	return nil
}
