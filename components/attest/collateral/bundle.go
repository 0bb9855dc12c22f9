package collateral

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson"
)

// Bounds of the parts, in bytes. Real ones have less than a quarter of this. All
// parts at their bounds still fit into MaxBundleSize.
const (
	MaxBundleSize = 256 << 10

	maxTCBInfo    = 48 << 10
	maxQEIdentity = 8 << 10
	maxCRL        = 48 << 10
	maxChain      = 8 << 10
)

const bundleVersion = 1

// Bundle is all collateral that quotes of one family of machines need. It is an unverified claim
// until Open.
type Bundle struct {
	// Version of this document: 1.
	Version int `json:"version"`
	// TCBInfo and QEIdentity are the answers of Intel's service as text: the signature covers the
	// bytes of the inner object, so they stay unchanged.
	TCBInfo    string `json:"tcb_info"`
	QEIdentity string `json:"qe_identity"`
	// The issuer chains are PEM: the signer, then the root.
	TCBInfoChain    string `json:"tcb_info_issuer_chain"`
	QEIdentityChain string `json:"qe_identity_issuer_chain"`
	PCKCRLChain     string `json:"pck_crl_issuer_chain"`
	// PCKCRL and RootCRL are DER; base64 in JSON.
	PCKCRL  []byte `json:"pck_crl"`
	RootCRL []byte `json:"root_crl"`
}

// ParseBundle decodes one document strictly: its size is bounded, unknown and
// repeated names are refused. The error is a *refusal with
// COLLATERAL_UNAVAILABLE.
func ParseBundle(data []byte) (Bundle, error) {
	if len(data) > MaxBundleSize {
		return Bundle{}, unusable("the bundle has %d bytes, the limit is %d", len(data), MaxBundleSize)
	}
	var b Bundle
	if err := strictjson.Unmarshal(data, &b); err != nil {
		return Bundle{}, unusable("bundle: %v", err)
	}
	return b, b.check()
}

// Encode writes the one form of b: the same content is the same bytes.
func (b Bundle) Encode() ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("encode collateral bundle: %w", err)
	}
	if out.Len() > MaxBundleSize {
		return nil, unusable("the bundle has %d bytes, the limit is %d", out.Len(), MaxBundleSize)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// check bounds every part.
func (b Bundle) check() error {
	if b.Version != bundleVersion {
		return unusable("bundle version %d, only %d is supported", b.Version, bundleVersion)
	}
	for _, part := range []struct {
		name      string
		size, max int
	}{
		{"tcb_info", len(b.TCBInfo), maxTCBInfo},
		{"qe_identity", len(b.QEIdentity), maxQEIdentity},
		{"tcb_info_issuer_chain", len(b.TCBInfoChain), maxChain},
		{"qe_identity_issuer_chain", len(b.QEIdentityChain), maxChain},
		{"pck_crl_issuer_chain", len(b.PCKCRLChain), maxChain},
		{"pck_crl", len(b.PCKCRL), maxCRL},
		{"root_crl", len(b.RootCRL), maxCRL},
	} {
		if part.size == 0 || part.size > part.max {
			return unusable("%s has %d bytes, want 1 to %d", part.name, part.size, part.max)
		}
	}
	return nil
}

// Digest names the content of b.
func (b Bundle) Digest() [32]byte {
	h := sha256.New()
	for _, part := range [][]byte{
		[]byte(b.TCBInfo), []byte(b.QEIdentity), []byte(b.TCBInfoChain), []byte(b.QEIdentityChain), []byte(b.PCKCRLChain), b.PCKCRL, b.RootCRL,
	} {
		// Lengths keep two different splits of the same bytes apart.
		_, _ = fmt.Fprintf(h, "%d:", len(part))
		_, _ = h.Write(part)
	}
	return [32]byte(h.Sum(nil))
}

// unusable is collateral that cannot be read or does not verify: its source is at fault, so other
// collateral may do.
func unusable(format string, args ...any) error {
	return refusal.New(policy.CodeCollateralUnavailable, format, args...)
}
