package attest

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"cadre.dev/attest/collateral"
)

// Bounds of collateral.max_age: shorter than an hour no service keeps up, longer
// than 30 days Intel's own dates have ended.
const (
	minCollateralAge = time.Hour
	maxCollateralAge = 30 * 24 * time.Hour
)

// maxAge is the parsed MaxAge, 0 if there is none.
func (c TrustCollateral) maxAge() (time.Duration, error) {
	if c.MaxAge == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(c.MaxAge)
	if err != nil || d < minCollateralAge || d > maxCollateralAge {
		return 0, fmt.Errorf("max_age %q is not a duration from 1h to 720h", c.MaxAge)
	}
	return d, nil
}

func (c TrustCollateral) validate() []error {
	var problems []error
	add := func(err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("collateral.%w", err))
		}
	}
	_, err := c.maxAge()
	add(err)
	if c.PCCSURL != "" {
		if _, err := collateral.NewPCCS(collateral.PCCSConfig{URL: c.PCCSURL, CertSHA256: c.PCCSCertSHA256}); err != nil {
			add(fmt.Errorf("pccs_url: %w", err))
		}
	}
	if c.PCCSURL == "" && c.PCCSCertSHA256 != "" {
		add(errors.New("pccs_cert_sha256 is set and pccs_url is empty: name the service"))
	}
	if c.BundlePath != "" && !filepath.IsAbs(c.BundlePath) {
		add(fmt.Errorf("bundle_path %q is not absolute", c.BundlePath))
	}
	return problems
}

// CollateralSource is a coordinator's source of collateral. Without any source a coordinator must
// not start: it could not distinguish a revoked machine (ATT-06). kept has the collateral fetched
// before this process began, as a fallback; nil: none. kept alone does not count as a source.
func (t Trust) CollateralSource(kept collateral.Source) (collateral.Source, error) {
	var sources collateral.Sources
	if t.Collateral.PCCSURL != "" {
		maxAge, err := t.Collateral.maxAge()
		if err != nil {
			return nil, fmt.Errorf("trust file: collateral.%w", err)
		}
		// 0 is the default; an age limit needs collateral well before it is reached.
		pccs, err := collateral.NewPCCS(collateral.PCCSConfig{URL: t.Collateral.PCCSURL, CertSHA256: t.Collateral.PCCSCertSHA256, Refresh: maxAge / 4, Kept: kept})
		if err != nil {
			return nil, fmt.Errorf("trust file: collateral.pccs_url: %w", err)
		}
		sources = append(sources, pccs)
	}
	if t.Collateral.BundlePath != "" {
		sources = append(sources, &collateral.Files{Path: t.Collateral.BundlePath})
	}
	if len(sources) == 0 {
		return nil, errors.New("trust file: collateral names no source: set collateral.pccs_url (Intel's own is " + collateral.IntelURL + ") or collateral.bundle_path")
	}
	return sources, nil
}
