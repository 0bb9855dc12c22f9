package collateral

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
)

// Source finds collateral. Its result is unverified and may have expired: the caller opens and
// judges it. Implementations are safe for concurrent use.
type Source interface {
	// Bundle returns the bundle of the machines called fmspc, 12 lower-case hex characters. fmspc
	// must come from a verified PCK chain, never from a claim (ATT-28). A missing bundle is an
	// error, COLLATERAL_UNAVAILABLE.
	Bundle(ctx context.Context, fmspc string) (Bundle, error)
}

// NewerSource is a Source that caches its result for a while.
type NewerSource interface {
	// Newer is Bundle for a caller that knows of newer collateral than Bundle returned: it fetches
	// the cached result again, unless that happened a moment ago.
	Newer(ctx context.Context, fmspc string) (Bundle, error)
}

// EarlySource is a Source that also knows Intel's early set.
type EarlySource interface {
	// Early returns the early set, unverified. It starts no request of its own and waits only a
	// moment, because the caller is about to decide about an admission. false: there is none.
	Early(ctx context.Context, fmspc string) (Bundle, bool)
}

// Sources asks one Source after another; the first that has a bundle wins.
type Sources []Source

// Bundle implements Source. The error lists each source's error.
func (s Sources) Bundle(ctx context.Context, fmspc string) (Bundle, error) {
	var errs []error
	for _, source := range s {
		b, err := source.Bundle(ctx, fmspc)
		if err == nil {
			return b, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return Bundle{}, errs[0]
	}
	return Bundle{}, unusable("no source has collateral of FMSPC %s: %v", fmspc, errors.Join(errs...))
}

// Static has one Bundle per FMSPC, for tests and imported documents.
type Static map[string]Bundle

// Bundle implements Source.
func (s Static) Bundle(_ context.Context, fmspc string) (Bundle, error) {
	b, ok := s[fmspc]
	if !ok {
		return Bundle{}, unusable("there is no collateral of FMSPC %s", fmspc)
	}
	return b, nil
}

// Claims reads the claimed FMSPC and expiry of an unverified Bundle, to file it. No decision
// depends on them.
func (b Bundle) Claims() (fmspc string, until time.Time, err error) {
	inner, _, err := signed(b.TCBInfo, "tcbInfo")
	if err != nil {
		return "", until, unusable("tcb_info: %v", err)
	}
	tcb, err := readTCBInfo(inner)
	if err != nil {
		return "", until, unusable("tcb_info: %v", err)
	}
	if inner, _, err = signed(b.QEIdentity, "enclaveIdentity"); err != nil {
		return "", until, unusable("qe_identity: %v", err)
	}
	qe, err := readQEIdentity(inner)
	if err != nil {
		return "", until, unusable("qe_identity: %v", err)
	}
	until = earliest(tcb.NextUpdate, qe.NextUpdate)
	for _, der := range [][]byte{b.PCKCRL, b.RootCRL} {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return "", until, unusable("revocation list: %v", err)
		}
		until = earliest(until, list.NextUpdate)
	}
	return tcb.FMSPC, until, nil
}

// asUnavailable gives an error of a source its code.
func asUnavailable(doing string, err error) error {
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return refused
	}
	return refusal.New(policy.CodeCollateralUnavailable, "%s: %v", doing, err)
}

func checkFMSPC(fmspc string) error {
	if !isHex(fmspc, 12) {
		return fmt.Errorf("fmspc %q is not 12 lower-case hex digits", fmspc)
	}
	return nil
}
