package admission

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/attest/statement"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// Challenge implements AdmissionService.
func (c *contact) Challenge(ctx context.Context, req *admissionv1.ChallengeRequest) (*admissionv1.ChallengeResponse, error) {
	out, err := c.challenge(ctx, req)
	if err != nil {
		c.log.Info("challenge refused", "instance", printable(req.GetInstanceId()), "code", err.code, "error", err.message)
		return nil, err.public()
	}
	return out, nil
}

func (c *contact) challenge(ctx context.Context, req *admissionv1.ChallengeRequest) (*admissionv1.ChallengeResponse, *refusal) {
	switch {
	case !isHex(req.GetAppId(), 40):
		return nil, refuse(codeBadRequest, "app_id: want 40 lower-case hex characters")
	case !isHex(req.GetInstanceId(), 40):
		return nil, refuse(codeBadRequest, "instance_id: want 40 lower-case hex characters")
	case len(req.GetBootNonce()) != nonceSize:
		return nil, refuse(codeBadRequest, "boot_nonce: want %d bytes", nonceSize)
	case !c.isOwnKey(req.GetBootPublicKey()):
		return nil, refuse(codeBadRequest, "boot_public_key: is not the key of this connection")
	}
	groupName, slot, _, refused := c.slotOf(ctx, req.GetAppId(), req.GetInstanceId())
	if refused != nil {
		return nil, refused
	}
	if c.challenges.Add(1) > maxExchanges {
		return nil, refuse(codeRate, "this connection reached its limit of requests; open a new one").later().in(time.Second)
	}
	nonce, expiry, err := issueNonce(c.cfg.Root.NonceKey(), c.exchange(req.GetAppId(), req.GetInstanceId()), c.now())
	if err != nil {
		return nil, refuse(codeOverloaded, "%v", err).later()
	}
	own, refused := c.prover.prove(ctx, statement.Exchange{Exporter: c.channel, PeerNonce: req.GetBootNonce()})
	if refused != nil {
		return nil, refused
	}
	if own.err != nil {
		c.log.Error("own evidence not available", "error", own.err)
		return nil, refuse(codeVerifier, "the coordinator cannot make its own evidence now").later().in(time.Second)
	}
	return &admissionv1.ChallengeResponse{
		Nonce: nonce, ExpiresAt: timestamppb.New(expiry), Cluster: c.cfg.Cluster, Group: groupName, Slot: slot,
		CoordinatorEvidence: &admissionv1.Evidence{
			Quote: own.evidence.Quote, EventLog: own.evidence.EventLog, AppCompose: own.evidence.AppCompose, Collateral: own.evidence.Collateral,
		},
		CoordinatorStatement: own.statement, CoordinatorLeaf: own.leaf, CoordinatorPath: own.path,
	}, nil
}

// slotOf finds the Slot that the instance is bound to. The platform may not have listed a new CVM
// yet, so the refusal of an unknown instance is retryable. bound is false when no record binds the
// instance and the platform names its CVM after a Slot whose records are lost: such an instance may
// prove its identity, and gets no credentials.
func (s *Service) slotOf(ctx context.Context, appID, instanceID string) (groupName, slot string, bound bool, refused *refusal) {
	v, _ := s.cfg.Views.Latest()
	if v == nil {
		return "", "", false, refuse(codeUnreadable, "records are not readable yet").later()
	}
	for name, p := range v.Policies {
		if p.Value.InstanceID == instanceID && p.Value.AppID == appID {
			return p.Value.Group, name, true, nil
		}
	}
	if groupName, slot, ok := s.unbound(ctx, v, appID, instanceID); ok {
		return groupName, slot, false, nil
	}
	return "", "", false, refuse(codeUnknown, "no slot is bound to this instance; it is retried until the leader has bound it").later()
}

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// printable truncates a value of an unauthenticated caller for the log.
func printable(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return s
}
