package admission

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// Admit implements AdmissionService.
func (c *contact) Admit(ctx context.Context, req *admissionv1.AdmitRequest) (*admissionv1.AdmitResponse, error) {
	a := &attempt{contact: c}
	out, refused := a.run(ctx, req)
	if refused != nil {
		c.note(ctx, a.slot, a.bootID, a.stated.InstanceID, refused)
		return nil, refused.public()
	}
	c.metrics.Admitted()
	c.log.Info("boot admitted", "group", a.stated.Group, "slot", a.slot, "instance", a.stated.InstanceID,
		"revision", a.revision, "epoch", a.policy.Epoch, "boot", a.bootID)
	return out, nil
}

// attempt is one Admit; its fields are filled in the order of run.
type attempt struct {
	*contact
	bootID string
	stated statement.Agent
	nonce  []byte
	expiry time.Time
	// slot is the one that the instance is bound to, once known.
	slot string

	policy      policy.SlotPolicy
	policyIndex uint64
	revision    string
	simulated   bool
	spec        group.Spec
	record      group.SlotRecord
	admission   policy.Admission
	// renewal: this Boot held the Slot already.
	renewal bool
}

// run is the order of admission. Everything cheap comes before the quote is
// looked at, and nothing is written before everything is decided.
func (a *attempt) run(ctx context.Context, req *admissionv1.AdmitRequest) (*admissionv1.AdmitResponse, *refusal) {
	sum := sha256.Sum256(a.bootKey)
	a.bootID = hex.EncodeToString(sum[:])
	if refused := a.readStatement(req); refused != nil {
		return nil, refused
	}
	release, refused := a.take(ctx)
	if refused != nil {
		return nil, refused
	}
	claims, err := a.cfg.Verifier.Verify(ctx, attest.Evidence{
		Quote: req.GetEvidence().GetQuote(), EventLog: req.GetEvidence().GetEventLog(), AppCompose: req.GetEvidence().GetAppCompose(),
		VMConfig: req.GetEvidence().GetVmConfig(),
	}, a.stated.ReportData())
	release()
	if err != nil {
		return nil, asRefusal(err)
	}
	if refused := a.appraise(ctx, claims); refused != nil {
		return nil, refused.known()
	}
	if refused := a.commit(ctx); refused != nil {
		return nil, refused.known()
	}
	out, refused := a.issue(ctx)
	if refused != nil {
		return nil, refused.known()
	}
	return out, nil
}

// readStatement checks everything that needs no quote: sizes, form, nonce and
// that the statement is about this connection.
func (a *attempt) readStatement(req *admissionv1.AdmitRequest) *refusal {
	ev := req.GetEvidence()
	if len(req.GetStatement()) > maxStatement || len(ev.GetQuote()) > maxQuote || len(ev.GetEventLog()) > maxEventLog || len(ev.GetAppCompose()) > maxCompose {
		return refuse(codeTooLarge, "a part of the request is longer than its bound")
	}
	stated, err := statement.DecodeAgent(req.GetStatement())
	if err != nil {
		return refuse(codeCanonical, "%v", err)
	}
	a.stated, a.nonce = stated, stated.Nonce
	groupName, slot, refused := a.slotOf(stated.AppID, stated.InstanceID)
	if refused != nil {
		return refused
	}
	a.slot = slot
	if a.expiry, err = checkNonce(a.cfg.Root.NonceKey(), stated.Nonce, a.exchange(stated.AppID, stated.InstanceID), a.now()); err != nil {
		return refuse(codeNonce, "%v", err)
	}
	switch {
	case !a.isOwnKey(stated.BootPublicKey):
		return refuse(codeContext, "the statement names another key than the connection's")
	case subtle.ConstantTimeCompare(stated.Exporter, a.channel) != 1:
		return refuse(codeChannel, "the statement was made for another connection")
	case stated.Cluster != a.cfg.Cluster:
		return refuse("CLUSTER_MISMATCH", "the statement names another cluster")
	case stated.Slot != slot || stated.Group != groupName:
		return refuse("SLOT_MISMATCH", "the statement names another slot than the instance is bound to")
	}
	return nil
}

// appraise compares genuine claims with what the Slot may be now.
func (a *attempt) appraise(ctx context.Context, claims policy.Claims) *refusal {
	var err error
	a.policy, a.policyIndex, err = store.Read[policy.SlotPolicy](ctx, a.store, store.SlotPolicyKey(a.slot))
	if err != nil {
		return refuse(codeGate, "read the slot's policy: %v", err).later()
	}
	decision := policy.Appraise(a.policy, a.cfg.Images, policy.Statement{
		Cluster: a.stated.Cluster, Group: a.stated.Group, Slot: a.stated.Slot,
		AppID: a.stated.AppID, InstanceID: a.stated.InstanceID, ComposeHash: a.stated.ComposeHash,
	}, claims)
	if !decision.Allowed {
		return refuse(decision.Code, "%s", decision.Message)
	}
	a.revision, a.simulated = decision.Revision, claims.Simulated
	a.record, _, err = store.Read[group.SlotRecord](ctx, a.store, store.SlotKey(a.policy.Group, a.slot))
	if err != nil {
		return refuse(codeGate, "read the slot's record: %v", err).later()
	}
	spec, ok := a.cfg.Directory.Spec(a.policy.Group)
	if !ok {
		return refuse(codeGate, "the group has no valid spec yet").later()
	}
	a.spec = spec
	return nil
}

// commit takes the Slot in one transaction: the nonce was not spent, the policy
// is still the one that was appraised, no other leader came, and the Slot is
// free or may be taken from its present Boot.
func (a *attempt) commit(ctx context.Context) *refusal {
	now := a.now().UTC()
	before, index, err := store.Read[policy.Admission](ctx, a.store, store.AdmissionKey(a.slot))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return refuse(codeGate, "read the slot's admission: %v", err).later()
	}
	if index != 0 && before.BootID != a.bootID {
		if refused := a.mayReplace(before.BootID); refused != nil {
			return refused
		}
	}
	_, term, err := store.Read[store.TermRecord](ctx, a.store, store.TermKey)
	if err != nil {
		return refuse(codeGate, "read the term: %v", err).later()
	}
	a.admission = policy.Admission{
		Group: a.policy.Group, Slot: a.slot, BootID: a.bootID, InstanceID: a.stated.InstanceID, AppID: a.stated.AppID,
		Revision: a.revision, Epoch: a.policy.Epoch, Generation: before.Generation + 1,
		AdmittedAt: now, ExpiresAt: now.Add(credentialTTL), TokenAccessors: before.TokenAccessors, By: a.self, Simulated: a.simulated,
	}
	if before.BootID == a.bootID {
		a.renewal = true
		// The same Boot keeps its generation and its beginning.
		a.admission.Generation, a.admission.AdmittedAt = before.Generation, before.AdmittedAt
		a.admission.Revision = a.keptRevision(before.Revision)
	}
	nonce := hex.EncodeToString(a.nonce)
	spend, err := store.Put(store.NonceKey(nonce), store.SpentNonce{
		Slot: a.slot, BootID: a.bootID, SpentAt: now, ExpiresAt: a.expiry.UTC(), By: a.self,
	}, 0)
	if err != nil {
		return refuse(codeGate, "%v", err).later()
	}
	admit, err := store.Put(store.AdmissionKey(a.slot), a.admission, index)
	if err != nil {
		return refuse(codeGate, "%v", err).later()
	}
	err = a.store.Commit(ctx, spend,
		store.Op{Kind: store.OpCheckIndex, Key: store.SlotPolicyKey(a.slot), Index: a.policyIndex},
		store.Op{Kind: store.OpCheckIndex, Key: store.TermKey, Index: term},
		admit)
	if refused := a.committed(err); refused != nil {
		return refused
	}
	if !a.renewal {
		a.revoke(ctx, before.TokenAccessors)
	}
	return nil
}

// revoke takes back what the Boot before had, at once: that this one gets its own
// may still fail. They stay recorded until it has, and are revoked once more then.
func (a *attempt) revoke(ctx context.Context, accessors []string) {
	if err := a.cfg.Issuer.Revoke(ctx, accessors...); err != nil {
		a.log.Warn("old tokens not revoked; they end by themselves", "slot", a.slot, "error", err)
	}
}

// keptRevision is the Revision of a renewing Boot: two Revisions may measure the
// same, and a running Boot does not become the newer one by renewing.
func (a *attempt) keptRevision(before string) string {
	for _, allowed := range a.policy.Allowed {
		if allowed.Revision == before && allowed.ComposeHash == a.stated.ComposeHash {
			a.revision = before
		}
	}
	return a.revision
}

// committed reads what a failed transaction means.
func (a *attempt) committed(err error) *refusal {
	if err == nil {
		return nil
	}
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if ok {
		for _, failed := range conflict.Failed {
			if failed.Op.Key == store.NonceKey(hex.EncodeToString(a.nonce)) {
				return refuse(codeNonce, "the nonce was spent already")
			}
		}
	}
	// Nothing is certain but that a new exchange will tell.
	return refuse(codeGate, "take the slot: %v", err).later()
}

// mayReplace decides whether the Boot that holds the Slot may lose it to this one
// (IDN-03). Every agent reports to every coordinator, so a live Boot is known
// here, unless somebody keeps the two apart: that the instance id is the same
// proves nothing then, and the newest Boot wins.
func (a *attempt) mayReplace(holder string) *refusal {
	switch {
	case a.bootExpected(holder):
		return nil
	case a.cfg.Sessions.Live(a.slot, holder):
		return refuse(codeConflict, "another boot of the slot is alive; it must end first")
	case a.now().Sub(a.cfg.Views.Since()) < a.cfg.Warmup:
		// A coordinator that just started has not heard from anybody yet.
		return refuse(codeConflict, "another boot holds the slot and this coordinator does not know yet whether it is alive").later()
	}
	return nil
}

// bootExpected reports whether the Boot that holds the Slot is being restarted,
// so that a new one is what everybody waits for. Once the new one holds the Slot,
// no further one is.
func (a *attempt) bootExpected(holder string) bool {
	v, _ := a.cfg.Views.Latest()
	if v == nil {
		return false
	}
	op, open := v.OpenOperation(a.slot)
	return open && !op.Value.CallIssuedAt.IsZero() && op.Value.BootBefore == holder
}
