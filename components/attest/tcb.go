package attest

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"slices"

	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
)

// evaluateTCB applies collateral to the machine: the verifier's own if it has a source, otherwise
// the collateral in the evidence. Without any the TCB is not evaluated, and policy denies that.
func (v *Verifier) evaluateTCB(ctx context.Context, quote *tdQuote, chain *pckChain, given []byte) (policy.TCB, error) {
	var (
		set *collateral.Set
		err error
	)
	switch {
	case len(v.sources) > 0:
		set, err = v.find(ctx, chain)
	case len(given) > 0:
		if set, err = v.openGiven(chain, given); err == nil {
			err = v.checkFresh(ctx, set, chain)
		}
	default:
		return policy.TCB{}, nil
	}
	if err != nil {
		return policy.TCB{}, err
	}
	if err := set.Revoked(chain.leaf, chain.ca); err != nil {
		return policy.TCB{}, err
	}
	tcb, err := quote.five.evaluate(set, machineOf(quote, chain))
	if err == nil {
		tcb.Early = v.early(ctx, quote, chain)
	}
	return tcb, err
}

// early returns the machine's rating in the first early set that is in date. It is only a warning:
// a faulty early set rejects no evidence and leaves no mark.
func (v *Verifier) early(ctx context.Context, quote *tdQuote, chain *pckChain) policy.EarlyTCB {
	for _, source := range v.sources {
		knows, ok := source.(collateral.EarlySource)
		if !ok {
			continue
		}
		bundle, ok := knows.Early(ctx, chain.machine.FMSPC)
		if !ok {
			continue
		}
		set, err := v.open(setKey{bundle.Digest(), chain.root}, func() (collateral.Bundle, error) { return bundle, nil })
		if err != nil || set.FMSPC() != chain.machine.FMSPC || set.Fresh(v.now(), v.maxAge) != nil {
			continue
		}
		tcb, err := quote.five.evaluate(set, machineOf(quote, chain))
		if codeIs(asError(err), policy.CodeTCBOutOfDate) {
			// The machine is below every level of the early set.
			mark := set.Mark()
			return policy.EarlyTCB{Status: string(collateral.OutOfDate), EvaluationNumber: min(mark.TCBEvaluation, mark.QEEvaluation)}
		}
		if err == nil {
			return policy.EarlyTCB{Status: tcb.Status, EvaluationNumber: tcb.EvaluationNumber, ReplacedAt: tcb.ReplacedAt}
		}
	}
	return policy.EarlyTCB{}
}

// find asks the sources in order; the chain has verified, so its FMSPC is trustworthy. The first
// usable collateral counts: damaged, expired or replayed collateral of one source does not hide the
// next source's. Collateral that finds this clock behind ends the search, since older collateral
// would accept the clock (ATT-29).
func (v *Verifier) find(ctx context.Context, chain *pckChain) (*collateral.Set, error) {
	var errs []error
	for _, source := range v.sources {
		set, err := v.findIn(ctx, source.Bundle, chain)
		// Another verifier has seen a newer evaluation, so the collateral cached here for hours is
		// rejected from now on. Ask the source again.
		if newer, ok := source.(collateral.NewerSource); ok && codeIs(err, policy.CodeCollateralRollback) {
			set, err = v.findIn(ctx, newer.Newer, chain)
		}
		if err == nil {
			v.keep(set, chain)
			v.accepted(set)
			return set, nil
		}
		if codeIs(err, policy.CodeClockUntrusted) {
			return nil, err
		}
		errs = append(errs, err)
	}
	if slices.ContainsFunc(errs, func(err error) bool { return codeIs(err, policy.CodeCollateralRollback) }) {
		if set := v.kept(ctx, chain); set != nil {
			return set, nil
		}
	}
	for _, err := range errs {
		// An unusable collateral is a better reason than missing collateral.
		if len(errs) == 1 || !codeIs(err, policy.CodeCollateralUnavailable) {
			return nil, err
		}
	}
	return nil, refuse(policy.CodeCollateralUnavailable, "no source has collateral of FMSPC %s: %v", chain.machine.FMSPC, errors.Join(errs...))
}

// familyKey is a family of machines under a root.
type familyKey struct {
	fmspc string
	root  *x509.Certificate // one of the roots' own pointers
}

// keep remembers the last accepted collateral for the chain's family.
func (v *Verifier) keep(set *collateral.Set, chain *pckChain) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.best == nil || len(v.best) >= maxCached {
		v.best = map[familyKey]*collateral.Set{}
	}
	v.best[familyKey{chain.machine.FMSPC, chain.root}] = set
}

// kept returns the last accepted collateral if it is still usable: one lagging cache must not end
// all admissions. nil: there is none.
func (v *Verifier) kept(ctx context.Context, chain *pckChain) *collateral.Set {
	v.mu.Lock()
	set := v.best[familyKey{chain.machine.FMSPC, chain.root}]
	v.mu.Unlock()
	if set == nil || v.checkFresh(ctx, set, chain) != nil {
		return nil
	}
	return set
}

// findIn returns the bundle that a source answers with, if it may be used.
func (v *Verifier) findIn(ctx context.Context, ask func(context.Context, string) (collateral.Bundle, error), chain *pckChain) (*collateral.Set, error) {
	bundle, err := ask(ctx, chain.machine.FMSPC)
	if err != nil {
		return nil, asError(err)
	}
	set, err := v.open(setKey{bundle.Digest(), chain.root}, func() (collateral.Bundle, error) { return bundle, nil })
	if err != nil {
		return nil, err
	}
	return set, v.checkFresh(ctx, set, chain)
}

func codeIs(err error, code policy.Code) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Code == code
}

func (v *Verifier) openGiven(chain *pckChain, given []byte) (*collateral.Set, error) {
	if len(given) > collateral.MaxBundleSize {
		return nil, refuse(CodeTooLarge, "collateral has %d bytes, the limit is %d", len(given), collateral.MaxBundleSize)
	}
	return v.open(setKey{sha256.Sum256(given), chain.root}, func() (collateral.Bundle, error) { return collateral.ParseBundle(given) })
}

// setKey identifies an opened bundle, and its root.
type setKey struct {
	digest [32]byte
	root   *x509.Certificate // one of the roots' own pointers
}

// open verifies collateral of the same bytes once: only signatures are judged
// here, and they cannot change. Dates and revocations are judged at each use.
func (v *Verifier) open(key setKey, read func() (collateral.Bundle, error)) (*collateral.Set, error) {
	v.mu.Lock()
	known := v.sets[key]
	v.mu.Unlock()
	if known != nil {
		return known, nil
	}
	bundle, err := read()
	if err != nil {
		return nil, asError(err)
	}
	set, err := collateral.Open(bundle, key.root)
	if err != nil {
		return nil, asError(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.sets == nil || len(v.sets) >= maxCached {
		v.sets = map[setKey]*collateral.Set{}
	}
	v.sets[key] = set
	return set, nil
}

// checkFresh checks dates and the replay of older collateral, and remembers the newest. The
// collateral is genuine here, independent of the evidence.
func (v *Verifier) checkFresh(ctx context.Context, set *collateral.Set, chain *pckChain) error {
	now, mark := v.now(), set.Mark()
	if mark.FMSPC != chain.machine.FMSPC {
		return refuse(policy.CodeCollateralUnavailable, "the collateral is of FMSPC %s, the machine of %s", mark.FMSPC, chain.machine.FMSPC)
	}
	if err := set.Fresh(now, v.maxAge); err != nil {
		return asError(err)
	}
	highest, err := v.highest.Get(ctx, mark.FMSPC)
	if err != nil {
		return refuse(policy.CodeCollateralUnavailable, "read which collateral was the newest: %v", err)
	}
	v.mu.Lock()
	if mark.IssuedAt.After(v.newest) {
		v.newest = mark.IssuedAt
	}
	newest := v.newest
	v.mu.Unlock()
	// The clock must not be before anything that Intel signed, of any family.
	floor := highest
	if newest.After(floor.IssuedAt) {
		floor.IssuedAt = newest
	}
	if err := collateral.CheckMark(mark, floor, now); err != nil {
		return asError(err)
	}
	if raised := highest.Raised(mark); !raised.Equal(highest) {
		if err := v.highest.Raise(ctx, mark); err != nil {
			return refuse(policy.CodeCollateralUnavailable, "record which collateral is the newest: %v", err)
		}
	}
	return nil
}

// CollateralFor returns the collateral that a verifier of this quote needs, as one
// document for Evidence.Collateral. The quote's chain is verified first.
func (v *Verifier) CollateralFor(ctx context.Context, quote []byte) ([]byte, error) {
	if len(v.sources) == 0 {
		return nil, refuse(policy.CodeCollateralUnavailable, "no source of collateral is configured")
	}
	parsed, err := parseQuote(quote)
	if err != nil {
		return nil, err
	}
	chain, err := v.chainOf(parsed)
	if err != nil {
		return nil, err
	}
	set, err := v.find(ctx, chain)
	if err != nil {
		return nil, err
	}
	return set.Encoded(), nil
}

// machineOf joins the machine's fields from the chain and the quote.
func machineOf(quote *tdQuote, chain *pckChain) collateral.Machine {
	m := chain.machine
	body := quote.GetTdQuoteBody()
	copy(m.TDX[:], body.GetTeeTcbSvn())
	copy(m.ModuleSigner[:], body.GetMrSignerSeam())
	copy(m.ModuleAttributes[:], body.GetSeamAttributes())
	qe := quote.GetSignedData().GetCertificationData().GetQeReportCertificationData().GetQeReport()
	m.QE.MiscSelect = qe.GetMiscSelect()
	copy(m.QE.Attributes[:], qe.GetAttributes())
	copy(m.QE.MRSigner[:], qe.GetMrSigner())
	// The protobuf has wider numbers than the report; both are two bytes there.
	m.QE.ProdID, m.QE.SVN = uint16(qe.GetIsvProdId()), uint16(qe.GetIsvSvn())
	return m
}

// asError keeps the code of an error that has one.
func asError(err error) error {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused
	}
	return refuse(policy.CodeCollateralUnavailable, "%v", err)
}
