package admission

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/coordinator/internal/view"
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
		c.note(ctx, a, refused)
		return nil, refused.public()
	}
	c.metrics.Admitted()
	c.log.Info("boot admitted", "group", a.stated.Group, "slot", a.slot, "instance", a.stated.InstanceID,
		"revision", a.revision, "epoch", a.policy.Epoch, "boot", a.bootID, "generation", a.admission.Generation)
	return out, nil
}

// attempt is one Admit call; its fields are filled in the order of run.
type attempt struct {
	*contact
	bootID string
	stated statement.Agent
	nonce  []byte
	expiry time.Time
	// slot is the Slot that the instance is bound to, once known. While bound is false, it is the
	// Slot that the platform's name of the CVM refers to.
	slot  string
	bound bool
	// vip is the address that the Boot reports as its own; "": none.
	vip string

	policy      policy.SlotPolicy
	policyIndex uint64
	// accepted passes while the group's accepted policy is unchanged since the appraisal.
	accepted  store.Op
	revision  string
	claims    policy.Claims
	spec      group.Spec
	record    group.SlotRecord
	admission policy.Admission
	// renewal: this Boot held the Slot already.
	renewal bool
	// proven: the evidence is that of the CVM that the Slot is bound to.
	proven bool
}

// run defines the order of admission. Cheap checks come before the quote, and checks inside this
// process before calls to others. All writes follow after the last check.
func (a *attempt) run(ctx context.Context, req *admissionv1.AdmitRequest) (*admissionv1.AdmitResponse, *refusal) {
	sum := sha256.Sum256(a.bootKey)
	a.bootID = hex.EncodeToString(sum[:])
	a.vip = req.GetInUse().GetVip()
	if refused := a.readStatement(ctx, req); refused != nil {
		return nil, refused
	}
	if a.admissions.Add(1) > maxExchanges {
		return nil, refuse(codeRate, "this connection reached its limit of requests; open a new one").later().in(time.Second)
	}
	ev := attest.Evidence{
		Quote: req.GetEvidence().GetQuote(), EventLog: req.GetEvidence().GetEventLog(), AppCompose: req.GetEvidence().GetAppCompose(),
		VMConfig: req.GetEvidence().GetVmConfig(),
	}
	claims, refused := a.verify(ctx, ev)
	if refused != nil {
		return nil, refused
	}
	if !a.bound {
		if a.cfg.Second != nil {
			if refused := a.confirm(ctx, ev, claims); refused != nil {
				return nil, refused
			}
		}
		return nil, a.proveUnbound(ctx, claims).known()
	}
	refused = a.appraise(ctx, claims)
	if a.proven && a.cfg.Saw != nil && req.GetSeenTerm() != 0 {
		a.cfg.Saw(a.slot, req.GetSeenTerm(), req.GetSeenState())
	}
	if refused != nil {
		return nil, refused.known()
	}
	if a.cfg.Second != nil {
		if refused := a.confirm(ctx, ev, claims); refused != nil {
			return nil, refused
		}
		// The second verifier may have been slow, so this appraisal finds later revocations.
		if refused := a.appraise(ctx, claims); refused != nil {
			return nil, refused.known()
		}
	}
	if refused := a.commit(ctx); refused != nil {
		return nil, refused.known()
	}
	if refused := a.checkRevoked(ctx); refused != nil {
		return nil, refused.known()
	}
	out, refused := a.grant(ctx, req.GetInUse())
	if refused != nil {
		return nil, refused.known()
	}
	return &admissionv1.AdmitResponse{
		Credentials: out, InitialPeers: a.cfg.Directory.InitialPeers(a.policy.Group, a.slot),
	}, nil
}

// grant returns the credentials of the admitted Boot; inUse is the Boot's own list of its
// credentials.
func (a *attempt) grant(ctx context.Context, inUse *admissionv1.CredentialsInUse) (*admissionv1.Credentials, *refusal) {
	public, err := x509.ParsePKIXPublicKey(a.bootKey)
	if err != nil {
		return nil, refuse(codeBadRequest, "boot key: %v", err)
	}
	if !a.renewal {
		inUse = nil // this Boot has no credentials yet, so its own list is ignored
	}
	return a.issue(ctx, &grant{
		admission: a.admission, checks: unrevoked(a.admission), spec: a.spec, vip: a.record.VIP, key: public, inUse: inUse,
	})
}

// verify returns the claims of genuine evidence. Verification is CPU work, and the attempt holds a
// place in the pool until it is done.
func (a *attempt) verify(ctx context.Context, ev attest.Evidence) (policy.Claims, *refusal) {
	release, refused := a.verifying.enter(ctx, a.lane(), a.bootID)
	if refused != nil {
		return policy.Claims{}, refused
	}
	defer release()
	claims, err := a.cfg.Verifier.Verify(ctx, ev, a.stated.ReportData())
	if err != nil {
		return policy.Claims{}, asRefusal(err)
	}
	return claims, nil
}

// confirm asks the second verifier, within bounds of its own: a slow service delays only the
// attempts that need it. Without its answer the attempt is refused.
func (a *attempt) confirm(ctx context.Context, ev attest.Evidence, claims policy.Claims) *refusal {
	release, refused := a.confirming.enter(ctx, a.lane(), a.bootID)
	if refused != nil {
		return refused
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	if err := attest.Confirm(ctx, a.cfg.Second, ev, a.stated.ReportData(), claims); err != nil {
		return asRefusal(err)
	}
	return nil
}

// lane returns the queue in which this attempt waits for verification. The Boot that holds the Slot
// has a queue of its own, which unauthenticated callers cannot fill.
func (a *attempt) lane() string {
	if v, _ := a.cfg.Views.Latest(); v != nil && v.Admissions[a.slot].Value.BootID == a.bootID {
		return "holder of " + a.slot
	}
	return a.slot
}

// readStatement makes all checks that need no quote: sizes, form, nonce, and the binding of the
// statement to this connection.
func (a *attempt) readStatement(ctx context.Context, req *admissionv1.AdmitRequest) *refusal {
	ev := req.GetEvidence()
	if len(req.GetStatement()) > maxStatement || len(ev.GetQuote()) > maxQuote || len(ev.GetEventLog()) > maxEventLog || len(ev.GetAppCompose()) > maxCompose {
		return refuse(codeTooLarge, "a part of the request is longer than its bound")
	}
	stated, err := statement.DecodeAgent(req.GetStatement())
	switch {
	case errors.Is(err, statement.ErrVersion):
		return refuse(codeVersion, "%v", err)
	case err != nil:
		return refuse(codeCanonical, "%v", err)
	}
	a.stated, a.nonce = stated, stated.Nonce
	groupName, slot, bound, refused := a.slotOf(ctx, stated.AppID, stated.InstanceID)
	if refused != nil {
		return refused
	}
	a.slot, a.bound = slot, bound
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
	case stated.ClusterID != a.cfg.Root.ClusterID():
		return refuse("CLUSTER_MISMATCH", "the statement names cluster ID %s, this is %s", stated.ClusterID, a.cfg.Root.ClusterID())
	case stated.Group == group.Coordinators && groupName != group.Coordinators:
		// A Boot's identity follows from its Revision's group, never from its own statement
		// (IDN-07).
		return refuse(policy.CodeIdentityForbidden, "the statement asks for the identity of a coordinator")
	case stated.Slot != slot || stated.Group != groupName:
		return refuse("SLOT_MISMATCH", "the statement names another slot than the instance is bound to")
	}
	return nil
}

// appraise compares genuine claims with the current policy of the Slot.
func (a *attempt) appraise(ctx context.Context, claims policy.Claims) *refusal {
	var err error
	a.policy, a.policyIndex, err = store.Read[policy.SlotPolicy](ctx, a.store, store.SlotPolicyKey(a.slot))
	a.claims = claims
	if err != nil {
		return refuse(codeUnreadable, "read the slot's policy: %v", err).later()
	}
	// A revocation takes effect even before a leader has folded it into the policy.
	revoked, err := view.Revocations(ctx, a.store)
	if err != nil {
		return refuse(codeUnreadable, "%v", err).later()
	}
	a.policy = a.policy.Revoking(revoked)
	v, _ := a.cfg.Views.Latest()
	if v == nil {
		return refuse(codeUnreadable, "records are not readable yet").later()
	}
	a.policy, a.accepted = underAccepted(a.policy, v)
	decision := policy.Appraise(a.policy, v.Judging(a.cfg.Images), policy.Statement{
		Cluster: a.stated.Cluster, Group: a.stated.Group, Slot: a.stated.Slot,
		AppID: a.stated.AppID, InstanceID: a.stated.InstanceID, ComposeHash: a.stated.ComposeHash,
	}, claims, a.now())
	a.proven = decision.Proven
	if !decision.Allowed {
		return refuse(decision.Code, "%s", decision.Message)
	}
	a.revision, a.claims = decision.Revision, claims
	a.record, _, err = store.Read[group.SlotRecord](ctx, a.store, store.SlotKey(a.policy.Group, a.slot))
	if err != nil {
		return refuse(codeUnreadable, "read the slot's record: %v", err).later()
	}
	spec, ok := a.cfg.Directory.Spec(a.policy.Group)
	if !ok {
		return refuse(codeUnreadable, "the group has no valid spec yet").later()
	}
	a.spec = spec
	return nil
}

// keptRevision returns the Revision of a renewing Boot. Two Revisions may have equal measurements,
// and a renewal moves a running Boot to the newer one only if the rollout step is a refresh. The
// Boot must prove the whole Revision; the compose hash alone is not enough.
func (a *attempt) keptRevision(before string) string {
	for _, allowed := range a.policy.Allowed {
		if allowed.Refresh && allowed.Revision == a.revision && a.cfg.Images.Proves(a.claims, allowed) {
			return a.revision
		}
	}
	for _, allowed := range a.policy.Allowed {
		if allowed.Revision == before && a.cfg.Images.Proves(a.claims, allowed) {
			a.revision = before
		}
	}
	return a.revision
}

// bootExpected reports whether an Operation restarts the Boot that holds the Slot, so that a new
// Boot is expected. The expectation ends when the new Boot holds the Slot.
func (a *attempt) bootExpected(holder string) bool {
	v, _ := a.cfg.Views.Latest()
	if v == nil {
		return false
	}
	op, open := v.OpenOperation(a.slot)
	return open && !op.Value.Call.IssuedAt.IsZero() && op.Value.Before.BootID == holder
}
