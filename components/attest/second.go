package attest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"cadre.dev/attest/dstackverifier"
	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson"
)

// Judge decides whether Evidence is genuine and returns its claims, as Verifier does.
type Judge interface {
	Verify(ctx context.Context, ev Evidence, reportData [64]byte) (policy.Claims, error)
}

// Confirm asks second about ev, which a first Judge has accepted with claims. It returns nil if
// second accepts ev too, and every claim that both make is the same. Otherwise one of the two is
// wrong, and it is unknown which: VERIFIER_INCONSISTENT. A second that does not answer is
// VERIFIER_UNAVAILABLE, to be retried. If second was not asked, since the OS image is unknown, the
// error is OS_IMAGE_FORBIDDEN.
//
// Call Confirm only for evidence that the first Judge accepted. A Judge that is a service may take
// long: the caller bounds how many ask at once, and the time by ctx.
func Confirm(ctx context.Context, second Judge, ev Evidence, reportData [64]byte, claims policy.Claims) error {
	other, err := second.Verify(ctx, ev, reportData)
	if err != nil {
		refused, ok := errors.AsType[*Error](err)
		switch {
		case !ok:
			return refuse(policy.CodeVerifierUnavailable, "second verifier: %v", err)
		// An unasked or unavailable verifier is no contradiction.
		case refused.Code == policy.CodeVerifierUnavailable, refused.Code == policy.CodeOSImageForbidden:
			return refused
		}
		return refuse(policy.CodeVerifierInconsistent, "the second verifier rejects evidence that the first accepts: %v", err)
	}
	if difference := differs(claims, other); difference != "" {
		return refuse(policy.CodeVerifierInconsistent, "the verifiers differ in %s", difference)
	}
	return nil
}

// differs names the first claim in which two verifiers differ. The registers may be
// missing from the second; everything else must be there.
func differs(a, b policy.Claims) string {
	for _, claim := range []struct {
		name     string
		a, b     string
		optional bool
	}{
		{"app_id", a.AppID, b.AppID, false},
		{"instance_id", a.InstanceID, b.InstanceID, false},
		{"compose_hash", a.ComposeHash, b.ComposeHash, false},
		{"key provider name", a.KeyProviderName, b.KeyProviderName, false},
		{"key provider id", a.KeyProviderID, b.KeyProviderID, false},
		{"os_image_hash", a.OSImageHash, b.OSImageHash, false},
		{"tcb status", a.TCB.Status, b.TCB.Status, false},
		{"fmspc", a.TCB.FMSPC, b.TCB.FMSPC, true},
		{"mrtd", a.MRTD, b.MRTD, true},
		{"rtmr0", a.RTMR0, b.RTMR0, true},
		{"rtmr1", a.RTMR1, b.RTMR1, true},
		{"rtmr2", a.RTMR2, b.RTMR2, true},
	} {
		if claim.a != claim.b && (!claim.optional || claim.b != "") {
			return claim.name
		}
	}
	if !slices.Equal(a.TCB.Advisories, b.TCB.Advisories) {
		return "advisories"
	}
	return ""
}

// NewDstackVerifier makes the Judge that asks the service at url. images are the allowed images.
// The Judge never sends evidence of any other image, since the service would fetch the image that
// the host's configuration names (ATT-28).
func NewDstackVerifier(url string, images map[string][]policy.Measurement) (Judge, error) {
	client, err := dstackverifier.New(dstackverifier.Config{URL: url})
	if err != nil {
		return nil, err
	}
	return &serviceJudge{client: client, images: images}, nil
}

type serviceJudge struct {
	client *dstackverifier.Client
	images map[string][]policy.Measurement
}

func (s *serviceJudge) Verify(ctx context.Context, ev Evidence, reportData [64]byte) (policy.Claims, error) {
	if err := s.known(ev); err != nil {
		return policy.Claims{}, err
	}
	claims, err := s.client.Verify(ctx, dstackverifier.Evidence{Quote: ev.Quote, EventLog: ev.EventLog, VMConfig: ev.VMConfig}, reportData)
	if err != nil {
		return policy.Claims{}, err
	}
	if sum := sha256.Sum256(ev.AppCompose); len(ev.AppCompose) > 0 && hex.EncodeToString(sum[:]) != claims.ComposeHash {
		return policy.Claims{}, refuse(policy.CodeVerifierInconsistent, "dstack-verifier names another compose hash than that of the app-compose.json")
	}
	return claims, nil
}

// maxVMConfig bounds the host's description of the VM.
const maxVMConfig = 64 << 10

// known reports whether the quote measures like an allowed image and the host's
// description names the image that was measured.
func (s *serviceJudge) known(ev Evidence) error {
	quote, err := parseQuote(ev.Quote)
	if err != nil {
		return err
	}
	body := quote.GetTdQuoteBody()
	measured := policy.Measurement{
		MRTD: hex.EncodeToString(body.GetMrTd()), RTMR0: hex.EncodeToString(body.GetRtmrs()[0]),
		RTMR1: hex.EncodeToString(body.GetRtmrs()[1]), RTMR2: hex.EncodeToString(body.GetRtmrs()[2]),
	}
	allowed := false
	for _, sets := range s.images {
		allowed = allowed || slices.Contains(sets, measured)
	}
	if !allowed {
		return refuse(policy.CodeOSImageForbidden, "the OS image (MRTD %.16s...) is none that the trust file names; the second verifier is not asked", measured.MRTD)
	}
	if len(ev.VMConfig) == 0 || len(ev.VMConfig) > maxVMConfig {
		return refuse(policy.CodeOSImageForbidden, "vm_config has %d bytes, want 1 to %d", len(ev.VMConfig), maxVMConfig)
	}
	var vm struct {
		OSImageHash string `json:"os_image_hash"`
	}
	if err := strictjson.UnmarshalOpen([]byte(ev.VMConfig), &vm); err != nil {
		return refuse(policy.CodeOSImageForbidden, "vm_config: %v", err)
	}
	boot, err := verifyLog(ev.EventLog, body)
	if err != nil {
		return err
	}
	if measured := hex.EncodeToString(boot.osImageHash); vm.OSImageHash == "" || vm.OSImageHash != measured {
		return refuse(policy.CodeOSImageForbidden, "vm_config names OS image %.16q, %.16q was measured", vm.OSImageHash, measured)
	}
	return nil
}
