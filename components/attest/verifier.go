package attest

import (
	"context"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	pb "github.com/google/go-tdx-guest/proto/tdx"
	"github.com/google/go-tdx-guest/verify"

	"cadre.dev/attest/collateral"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
)

// VerifierConfig holds a Verifier's trust anchors. It comes from measured configuration, never from
// the environment.
type VerifierConfig struct {
	// RootsPEM are roots in addition to Intel's. Evidence under one of them is Simulated. nil:
	// Intel's only.
	RootsPEM []byte
	// Documents are the rules for an app-compose.json. Its key provider is that of the evidence,
	// which policy compares.
	Documents appcompose.Rules
	// Collateral finds collateral. Several Sources are asked in turn until one has usable
	// collateral. nil: the collateral in the evidence is used, and without that the TCB is not
	// evaluated.
	Collateral collateral.Source
	// Accepted is called at each use with the usable collateral of that source: its signatures
	// hold, it is in date and not older than the newest. It must be quick for the same collateral
	// as before. nil: it is not called.
	Accepted func(*collateral.Set)
	// MaxCollateralAge bounds the age of Intel's signed documents; 0: their own dates only.
	MaxCollateralAge time.Duration
	// Highest remembers the newest collateral. nil: in this process's memory.
	Highest collateral.Highest
	// Now is the time at which certificates must be valid. nil: time.Now.
	Now func() time.Time
}

// Verifier decides whether Evidence is genuine. It is safe for concurrent use. Between calls it
// caches which certificates and collateral have valid signatures, never whether they are in date or
// revoked.
//
// With collateral, a machine is judged by it: a revocation rejects the evidence here, and the TCB
// becomes a claim that policy judges. Without collateral the claim is empty: TCB level and
// revocation remain the platform's responsibility.
type Verifier struct {
	roots     roots
	documents appcompose.Rules
	sources   collateral.Sources // nil: use the collateral in the evidence
	accepted  func(*collateral.Set)
	maxAge    time.Duration
	highest   collateral.Highest
	now       func() time.Time

	mu     sync.Mutex
	chains map[[32]byte]*pckChain        // guarded by mu
	sets   map[setKey]*collateral.Set    // guarded by mu
	best   map[familyKey]*collateral.Set // guarded by mu; accepted last of each family
	newest time.Time                     // guarded by mu; the newest time that Intel signed
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
	highest := cfg.Highest
	if highest == nil {
		highest = &collateral.Memory{}
	}
	accepted := cfg.Accepted
	if accepted == nil {
		accepted = func(*collateral.Set) {}
	}
	return &Verifier{
		roots: r, documents: cfg.Documents, sources: sourcesOf(cfg.Collateral), accepted: accepted,
		maxAge: cfg.MaxCollateralAge, highest: highest, now: now,
	}, nil
}

func sourcesOf(source collateral.Source) collateral.Sources {
	if source == nil {
		return nil
	}
	if several, ok := source.(collateral.Sources); ok {
		return several
	}
	return collateral.Sources{source}
}

// Verify returns the claims of genuine Evidence. reportData is the required report data of the
// quote: the digest of a statement that the caller has checked. The error is an *Error, except when
// ctx has ended. The only I/O is that of the source of collateral, which is asked only about
// genuine evidence.
//
// Claims without an app-compose.json preimage have no ComposeText and an AppComposeProblem, so that
// policy rejects them.
func (v *Verifier) Verify(ctx context.Context, ev Evidence, reportData [64]byte) (policy.Claims, error) {
	if err := ctx.Err(); err != nil {
		return policy.Claims{}, fmt.Errorf("verify evidence: %w", err)
	}
	if len(ev.AppCompose) > appcompose.MaxSize {
		return policy.Claims{}, refuse(CodeTooLarge, "app-compose.json has %d bytes, the limit is %d", len(ev.AppCompose), appcompose.MaxSize)
	}
	quote, err := parseQuote(ev.Quote)
	if err != nil {
		return policy.Claims{}, err
	}
	chain, err := v.verifySignatures(quote)
	if err != nil {
		return policy.Claims{}, err
	}
	return v.claims(ctx, quote, chain, ev, reportData)
}

// claims checks the content of a quote with valid signatures, and the rest of the evidence.
func (v *Verifier) claims(ctx context.Context, quote *tdQuote, chain *pckChain, ev Evidence, reportData [64]byte) (policy.Claims, error) {
	body := quote.GetTdQuoteBody()
	if err := checkAttributes(body); err != nil {
		return policy.Claims{}, err
	}
	if err := quote.five.check(); err != nil {
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
	if len(ev.AppCompose) > 0 {
		if err := checkCompose(boot, ev.AppCompose); err != nil {
			return policy.Claims{}, err
		}
	}
	tcb, err := v.evaluateTCB(ctx, quote, chain, ev.Collateral)
	if err != nil {
		return policy.Claims{}, err
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
		TCB:             tcb,
		Simulated:       chain.simulated,
		Machine:         chain.name,
	}
	judgeAppCompose(&claims, ev.AppCompose, v.documents)
	return claims, nil
}

// judgeAppCompose fills in the preimage's content, and the reason if it is not acceptable. The
// bytes are measured, so a bad preimage is not forged evidence but a bad Revision: policy rejects
// it.
func judgeAppCompose(claims *policy.Claims, raw []byte, rules appcompose.Rules) {
	if len(raw) == 0 {
		claims.AppComposeProblem = "app-compose.json is not part of the evidence"
		return
	}
	rules.KeyProviderID = claims.KeyProviderID
	got, problems := appcompose.Judge(raw, rules)
	claims.ComposeText, claims.AllowedEnvs, claims.AppComposeProblem = got.Compose, got.Envs, appcompose.Texts(problems)
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
// report, attestation key, header and body, and the dates of the certificates.
func (v *Verifier) verifySignatures(quote *tdQuote) (chain *pckChain, err error) {
	defer func() {
		// The library is not ours; a quote that makes it panic is a bad quote.
		if r := recover(); r != nil {
			chain, err = nil, refuse(CodeQuoteInvalid, "quote verification: %v", r)
		}
	}()
	if chain, err = v.chainOf(quote); err != nil {
		return nil, err
	}
	if quote.five != nil {
		if err := quote.five.verify(quote.QuoteV4, chain, v.now()); err != nil {
			return nil, refuse(CodeQuoteInvalid, "%v", err)
		}
		return chain, nil
	}
	pool := x509.NewCertPool()
	pool.AddCert(chain.root)
	// The library writes into the options, so each call has its own.
	options := &verify.Options{TrustedRoots: pool, Now: v.now()}
	if err := verify.TdxQuote(quote.QuoteV4, options); err != nil {
		return nil, refuse(CodeQuoteInvalid, "%v", err)
	}
	return chain, nil
}
