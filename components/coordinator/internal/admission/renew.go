package admission

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// MayRenew judges a renewal by the records alone.
type MayRenew func(a policy.Admission, sp policy.SlotPolicy, ip policy.ImagePolicy, now time.Time) policy.Decision

const (
	// renewals is the number of concurrent renewals: each waits for Consul most of its time.
	renewals = 32
	// renewWait is how long a renewal may wait for its turn.
	renewWait = 5 * time.Second
	// renewPause is the minimum time between two renewals of one Slot on this coordinator.
	renewPause = 500 * time.Millisecond
)

// Credentials returns the service that admitted Boots call on their control sessions.
func (s *Service) Credentials() admissionv1.CredentialServiceServer { return &credentials{s: s} }

type credentials struct {
	admissionv1.UnimplementedCredentialServiceServer
	s *Service
}

// Renew implements CredentialService. The Session authenticates the caller: its name, Boot and key
// are never taken from the message.
func (c *credentials) Renew(ctx context.Context, req *admissionv1.RenewRequest) (*admissionv1.RenewResponse, error) {
	s := c.s
	caller, ok := grpcconn.AddrFromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "PEER_NOT_ADMITTED: the call did not come over an overlay session")
	}
	out, refused := s.renew(ctx, caller, req)
	if refused != nil {
		if !refused.retry {
			s.noteRenewal(ctx, caller, refused)
		}
		return nil, refused.renewal()
	}
	s.metrics.Renewed()
	s.log.Debug("credentials renewed", "slot", caller.ID.Slot, "boot", caller.BootID)
	return &admissionv1.RenewResponse{Credentials: out}, nil
}

// noteRenewal records why the holder of a Slot did not get fresh credentials. The refusal of a Boot
// that has lost the Slot is only returned: a record of it would displace those of the holder.
func (s *Service) noteRenewal(ctx context.Context, caller overlay.Addr, r *refusal) {
	s.log.Warn("renewal refused", "slot", caller.ID.Slot, "boot", caller.BootID, "code", r.code, "error", r.message)
	s.metrics.Refused(string(r.code))
	v, _ := s.cfg.Views.Latest()
	if v == nil || v.Admissions[caller.ID.Slot].Value.BootID != caller.BootID {
		return
	}
	if err := s.RecordRenewRefused(ctx, v.Admissions[caller.ID.Slot].Value, r.code, r.message); err != nil {
		s.log.Warn("decision not recorded", "slot", caller.ID.Slot, "error", err)
	}
}

// renewal returns the error for a Boot that asked for a renewal.
func (r *refusal) renewal() error {
	switch {
	case r.code == policy.CodeRateLimited:
		return status.Error(codes.ResourceExhausted, r.Error())
	case r.retry:
		return status.Error(codes.Unavailable, r.Error())
	case r.code == policy.CodeReattestRequired:
		return status.Error(codes.FailedPrecondition, r.Error())
	}
	return status.Error(codes.PermissionDenied, r.Error())
}

// renew decides and issues. renew first takes the records from the View, which costs no reads. The
// transaction checks that they are current; if they are outdated, renew reads them from the store.
func (s *Service) renew(ctx context.Context, caller overlay.Addr, req *admissionv1.RenewRequest) (*admissionv1.Credentials, *refusal) {
	sum := sha256.Sum256([]byte(caller.PublicKey))
	switch {
	case hex.EncodeToString(sum[:]) != caller.BootID:
		return nil, refuse(policy.CodeRenewDenied, "the session does not name the key that it authenticated")
	case req.GetBootId() != caller.BootID:
		return nil, refuse(policy.CodeRenewDenied, "a boot renews only its own credentials, with the admitted key")
	case !s.paced(caller.ID.Slot):
		return nil, refuse(policy.CodeRateLimited, "one renewal at a time; try again").later()
	}
	release, refused := s.renewTurn(ctx)
	if refused != nil {
		return nil, refused
	}
	defer release()
	g, refused := s.mayIssue(ctx, caller, s.viewed)
	if refused != nil && errors.Is(refused.cause, errTaken) || refused != nil && refused.code == codeStale {
		// The View may be outdated, for example right after an admission.
		g, refused = s.mayIssue(ctx, caller, s.read)
	}
	if refused != nil {
		return nil, refused
	}
	g.inUse = req.GetInUse()
	out, refused := s.issue(ctx, g)
	if refused != nil && errors.Is(refused.cause, errTaken) {
		if g, refused = s.mayIssue(ctx, caller, s.read); refused == nil {
			g.inUse = req.GetInUse()
			out, refused = s.issue(ctx, g)
		}
	}
	return out, refused
}

// renewalRecords are the records behind a renewal.
type renewalRecords struct {
	view                        *view.View // source of the records; nil: they were read
	admission                   policy.Admission
	policy                      policy.SlotPolicy
	lease                       view.Boot
	accepted                    store.Op // passes while the accepted policy is unchanged
	vip                         string
	admissionIndex, policyIndex uint64
}

// checks returns checks of the transaction. The policy and the lease must be those of h. The
// group's accepted policy must be unchanged, and the Boot and its measurements must not be revoked.
func (h *renewalRecords) checks(slot string) []store.Op {
	return append([]store.Op{
		{Kind: store.OpCheckIndex, Key: store.SlotPolicyKey(slot), Index: h.policyIndex},
		// The index changes with each end and each taking of the lease.
		{Kind: store.OpCheckIndex, Key: store.BootLeaseKey(slot), Index: h.lease.Index},
		h.accepted,
	}, unrevoked(h.admission)...)
}

// viewed takes the records from the latest View. viewed reads an admission that this coordinator
// has replaced, because a transaction on the older one would fail.
func (s *Service) viewed(ctx context.Context, slot string) (renewalRecords, *refusal) {
	v, _ := s.cfg.Views.Latest()
	if v == nil {
		return renewalRecords{}, refuse(codeUnreadable, "records are not readable yet").later()
	}
	a, p := v.Admissions[slot], v.Policies[slot]
	if a.Index == 0 || p.Index == 0 {
		return renewalRecords{}, refuse(codeStale, "the view has no admission or no policy of the slot").because(errTaken)
	}
	if a.Index <= s.replacedAt(slot) {
		var err error
		if a.Value, a.Index, err = store.Read[policy.Admission](ctx, s.store, store.AdmissionKey(slot)); err != nil {
			return renewalRecords{}, refuse(codeStale, "read the slot's admission: %v", err).because(errTaken)
		}
	}
	sp, accepted := underAccepted(p.Value, v)
	return renewalRecords{
		view: v, admission: a.Value, admissionIndex: a.Index, policy: sp, policyIndex: p.Index, accepted: accepted,
		lease: v.Boots[slot], vip: v.Slots[slot].Value.VIP,
	}, nil
}

// read reads the records.
func (s *Service) read(ctx context.Context, slot string) (renewalRecords, *refusal) {
	var h renewalRecords
	var err error
	for _, one := range []func() error{
		func() error {
			h.admission, h.admissionIndex, err = store.Read[policy.Admission](ctx, s.store, store.AdmissionKey(slot))
			return err
		},
		func() error {
			h.policy, h.policyIndex, err = store.Read[policy.SlotPolicy](ctx, s.store, store.SlotPolicyKey(slot))
			return err
		},
	} {
		switch err := one(); {
		case errors.Is(err, store.ErrNotFound):
			return renewalRecords{}, refuse(policy.CodeRenewDenied, "the slot has no admission or no policy")
		case err != nil:
			return renewalRecords{}, refuse(codeUnreadable, "read the slot's records: %v", err).later()
		}
	}
	if h.lease, err = s.lease(ctx, slot); err != nil {
		return renewalRecords{}, refuse(codeUnreadable, "read the boot's lease: %v", err).later()
	}
	v, _ := s.cfg.Views.Latest()
	if v == nil {
		return renewalRecords{}, refuse(codeUnreadable, "records are not readable yet").later()
	}
	h.vip = v.Slots[slot].Value.VIP
	// The View may not yet have the change that made the last try fail.
	revoked, err := view.Revocations(ctx, s.store)
	if err != nil {
		return renewalRecords{}, refuse(codeUnreadable, "%v", err).later()
	}
	h.policy, h.accepted = underAccepted(h.policy.Revoking(revoked), v)
	return h, nil
}

// mayIssue decides in this order: the Session's Boot holds the Slot, its lease lives, and the
// policy allows the renewal without new evidence.
func (s *Service) mayIssue(ctx context.Context, caller overlay.Addr, records func(context.Context, string) (renewalRecords, *refusal)) (*grant, *refusal) {
	slot := caller.ID.Slot
	h, refused := records(ctx, slot)
	if refused != nil {
		return nil, refused
	}
	switch {
	case h.admission.Group != caller.ID.Group:
		return nil, refuse(policy.CodeRenewDenied, "the slot belongs to another group")
	case h.admission.BootID != caller.BootID:
		return nil, refuse(codeStale, "another boot holds the slot")
	case !h.lease.LeasedBy(caller.BootID) && h.view != nil:
		return nil, refuse(codeStale, "the view has no lease of the boot").because(errTaken)
	case !h.lease.LeasedBy(caller.BootID) && !h.lease.Leased() && !h.lease.EndedBy(caller.BootID):
		// The lease's keeper ended, or all coordinators were away. A coordinator that receives the
		// Boot's reports takes the lease again.
		return nil, refuse(codeUnreadable, "no coordinator keeps the boot's lease now; one takes it again in a moment").later()
	case !h.lease.LeasedBy(caller.BootID):
		return nil, refuse(policy.CodeRenewDenied, "the boot's lease has ended")
	}
	if d := s.cfg.MayRenew(h.admission, h.policy, s.cfg.Images, s.now()); !d.Allowed {
		return nil, refuse(d.Code, "%s", d.Message)
	}
	spec, ok := s.cfg.Directory.Spec(h.admission.Group)
	if !ok || h.vip == "" {
		return nil, refuse(codeUnreadable, "the group's spec or the slot's record is not readable yet").later()
	}
	if h.view != nil && machineRule(spec).MaxPer > 0 && !h.view.Machines[slot].Value.Judged(h.admission.InstanceID) {
		return nil, refuse(policy.CodeReattestRequired, "whether the boot's evidence names a machine is not recorded, and the group's placement needs it")
	}
	key, err := x509.ParsePKIXPublicKey([]byte(caller.PublicKey))
	if err != nil {
		return nil, refuse(codeKey, "the session's key: %v", err)
	}
	return &grant{
		admission: h.admission, index: h.admissionIndex, view: h.view, checks: h.checks(slot), spec: spec, vip: h.vip, key: key,
	}, nil
}

// issued is the last renewal of a Slot on this coordinator.
type issued struct {
	at time.Time
	// replaced is the index of the admission that the renewal replaced. A View with that index or a
	// lower one is outdated.
	replaced uint64
}

// paced reports whether the Slot's last renewal on this coordinator is long enough ago, and records
// this one.
func (s *Service) paced(slot string) bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.issued[slot]
	if now.Sub(last.at) < renewPause {
		return false
	}
	last.at = now
	s.issued[slot] = last
	return true
}

// replaced records the index of an admission that this coordinator replaced; replacedAt returns it.
func (s *Service) replaced(slot string, index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.issued[slot]
	last.replaced = index
	s.issued[slot] = last
}

func (s *Service) replacedAt(slot string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued[slot].replaced
}

// renewTurn waits for a place among the concurrent renewals.
func (s *Service) renewTurn(ctx context.Context) (release func(), _ *refusal) {
	wait, cancel := context.WithTimeout(ctx, renewWait)
	defer cancel()
	select {
	case s.renewing <- struct{}{}:
		return func() { <-s.renewing }, nil
	case <-wait.Done():
		return nil, refuse(codeOverloaded, "too many renewals at once; try again").later()
	}
}
