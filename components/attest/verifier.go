package attest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	pb "github.com/google/go-tdx-guest/proto/tdx"
	"github.com/google/go-tdx-guest/verify"

	"cadre.dev/core/policy"
)

// VerifierConfig is what a Verifier trusts. It comes from measured
// configuration, never from the environment.
type VerifierConfig struct {
	// RootsPEM are roots beside Intel's. Evidence under one of them is Simulated.
	// nil: Intel's only.
	RootsPEM []byte
	// PreLaunchScripts are the hex SHA-256 of the pre_launch_script texts that an
	// app-compose.json may have. nil: none.
	PreLaunchScripts []string
	// Now is the time at which certificates must be valid. nil: time.Now.
	Now func() time.Time
}

// Verifier decides whether Evidence is genuine. It is safe for concurrent use
// and keeps nothing between calls.
//
// It works offline and does not evaluate the TCB: without Intel's collateral
// neither the TCB level of platform, TDX module and quoting enclave nor the
// revocation of a PCK certificate is known. Both remain the platform's word.
type Verifier struct {
	roots   roots
	scripts []string
	now     func() time.Time
}

// NewVerifier returns a Verifier; the error names a root that cannot be used.
func NewVerifier(cfg VerifierConfig) (*Verifier, error) {
	r, err := loadRoots(cfg.RootsPEM)
	if err != nil {
		return nil, err
	}
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	return &Verifier{roots: r, scripts: cfg.PreLaunchScripts, now: now}, nil
}

// Verify says what genuine Evidence claims. reportData is what the quote must
// commit to: the digest of a statement that the caller has checked. The error is
// an *Error, except when ctx has ended. Verify does no I/O; ctx only keeps a
// caller that has gone from costing work.
//
// Claims without an app-compose.json preimage have no ComposeText and an
// AppComposeProblem, so that policy refuses them.
func (v *Verifier) Verify(ctx context.Context, ev Evidence, reportData [64]byte) (policy.Claims, error) {
	if err := ctx.Err(); err != nil {
		return policy.Claims{}, fmt.Errorf("verify evidence: %w", err)
	}
	if len(ev.AppCompose) > MaxAppComposeSize {
		return policy.Claims{}, refuse(CodeTooLarge, "app-compose.json has %d bytes, the limit is %d", len(ev.AppCompose), MaxAppComposeSize)
	}
	quote, err := parseQuote(ev.Quote)
	if err != nil {
		return policy.Claims{}, err
	}
	simulated, err := v.verifySignatures(quote)
	if err != nil {
		return policy.Claims{}, err
	}
	body := quote.GetTdQuoteBody()
	if err := checkAttributes(body); err != nil {
		return policy.Claims{}, err
	}
	if err := checkQE(quote); err != nil {
		return policy.Claims{}, err
	}
	if subtle.ConstantTimeCompare(body.GetReportData(), reportData[:]) != 1 {
		return policy.Claims{}, refuse(CodeReportDataMismatch, "the quote commits to other data than this statement")
	}
	boot, err := verifyLog(ev.EventLog, body)
	if err != nil {
		return policy.Claims{}, err
	}
	if sum := sha256.Sum256(ev.AppCompose); len(ev.AppCompose) > 0 && !bytes.Equal(sum[:], boot.composeHash) {
		return policy.Claims{}, refuse(CodeEventLogInvalid, "app-compose.json hashes to %x, the measured compose hash is %x", sum, boot.composeHash)
	}
	claims := policy.Claims{
		AppID:           hex.EncodeToString(boot.appID),
		InstanceID:      hex.EncodeToString(boot.instanceID),
		ComposeHash:     hex.EncodeToString(boot.composeHash),
		KeyProviderName: boot.keyProvider.Name,
		KeyProviderID:   boot.keyProvider.ID,
		MRTD:            hex.EncodeToString(body.GetMrTd()),
		RTMR0:           hex.EncodeToString(body.GetRtmrs()[0]),
		RTMR1:           hex.EncodeToString(body.GetRtmrs()[1]),
		RTMR2:           hex.EncodeToString(body.GetRtmrs()[2]),
		OSImageHash:     hex.EncodeToString(boot.osImageHash),
		Simulated:       simulated,
	}
	claims.ComposeText, claims.AppComposeProblem = readAppCompose(ev.AppCompose, v.scripts)
	return claims, nil
}

func verifyLog(text string, body *pb.TDQuoteBody) (bootFacts, error) {
	events, err := parseEventLog(text)
	if err != nil {
		return bootFacts{}, err
	}
	if err := checkReplay(events, body.GetRtmrs()); err != nil {
		return bootFacts{}, err
	}
	boot, err := readBoot(events)
	if err != nil {
		return bootFacts{}, err
	}
	return boot, checkMRConfigID(body.GetMrConfigId(), boot)
}

// verifySignatures checks the whole chain: root, intermediate, PCK leaf, QE
// report, attestation key, header and body.
func (v *Verifier) verifySignatures(quote *pb.QuoteV4) (simulated bool, err error) {
	defer func() {
		// The library is not ours; a quote that makes it panic is a bad quote.
		if r := recover(); r != nil {
			simulated, err = false, refuse(CodeQuoteInvalid, "quote verification: %v", r)
		}
	}()
	chain := quote.GetSignedData().GetCertificationData().GetQeReportCertificationData().GetPckCertificateChainData().GetPckCertChain()
	end, err := chainEnd(chain)
	if err != nil {
		return false, refuse(CodeQuoteInvalid, "certificate chain: %v", err)
	}
	pool, simulated := v.roots.poolFor(end)
	// The library writes into the options, so each call has its own.
	options := &verify.Options{TrustedRoots: pool, Now: v.now()}
	if err := verify.TdxQuote(quote, options); err != nil {
		return false, refuse(CodeQuoteInvalid, "%v", err)
	}
	return simulated, nil
}

// chainEnd returns the last of the three certificates. The chain must be the
// canonical PEM of them, with the NUL that Intel's library appends or without:
// text between or around the blocks would be signed by nobody.
func chainEnd(chain []byte) (*x509.Certificate, error) {
	var canonical []byte
	var last []byte
	rest := chain
	for range 3 {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("not three PEM certificates")
		}
		last = block.Bytes
		canonical = append(canonical, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if !bytes.Equal(bytes.TrimSuffix(chain, []byte{0}), canonical) {
		return nil, errors.New("not in canonical PEM form")
	}
	return x509.ParseCertificate(last)
}
