package admission

import (
	"context"

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
	groupName, slot, refused := c.slotOf(req.GetAppId(), req.GetInstanceId())
	if refused != nil {
		return nil, refused
	}
	release, refused := c.take(ctx)
	if refused != nil {
		return nil, refused
	}
	defer release()
	nonce, expiry, err := issueNonce(c.cfg.Root.NonceKey(), c.exchange(req.GetAppId(), req.GetInstanceId()), c.now())
	if err != nil {
		return nil, refuse(codeOverloaded, "%v", err).later()
	}
	own := c.ownStatement(req.GetBootNonce())
	reportData := own.ReportData()
	evidence, err := c.cfg.Quoter.GetQuote(ctx, reportData[:])
	if err != nil {
		c.log.Error("own evidence not available", "error", err)
		return nil, refuse("VERIFIER_UNAVAILABLE", "the coordinator cannot make its own evidence now").later()
	}
	return &admissionv1.ChallengeResponse{
		Nonce: nonce, ExpiresAt: timestamppb.New(expiry), Cluster: c.cfg.Cluster, Group: groupName, Slot: slot,
		CoordinatorEvidence: &admissionv1.Evidence{
			Quote: evidence.Quote, EventLog: evidence.EventLog, AppCompose: evidence.AppCompose, Collateral: evidence.Collateral,
		},
		CoordinatorStatement: own.Encode(),
	}, nil
}

// ownStatement is what this coordinator's evidence commits to.
func (c *contact) ownStatement(peerNonce []byte) statement.Coordinator {
	bundle := c.cfg.Root.CA().BundleSHA256()
	return statement.Coordinator{
		Cluster: c.cfg.Cluster, AppID: c.cfg.AppID, Slot: c.cfg.Slot,
		TLSPublicKey: c.cfg.Identity.PublicKey(), Exporter: c.channel, PeerNonce: peerNonce, CABundleSHA256: bundle[:],
	}
}

// slotOf finds the Slot that the instance is bound to. The platform may not have
// listed a new CVM yet, so an unknown instance may come back.
func (s *Service) slotOf(appID, instanceID string) (groupName, slot string, refused *refusal) {
	v, _ := s.cfg.Views.Latest()
	if v == nil {
		return "", "", refuse(codeGate, "records are not readable yet").later()
	}
	for name, p := range v.Policies {
		if p.Value.InstanceID == instanceID && p.Value.AppID == appID {
			return p.Value.Group, name, nil
		}
	}
	return "", "", refuse(codeUnknown, "no slot is bound to this instance; it is retried until the leader has bound it").later()
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

// printable bounds what a stranger can put into the log.
func printable(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return s
}
