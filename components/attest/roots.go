package attest

import (
	"bytes"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
)

// Intel's SGX root certificate, the end of the chain of every real quote. The
// file is a copy of go-tdx-guest v0.3.1, verify/trusted_root.pem.
//
//go:embed intel_root.pem
var intelRootPEM []byte

// MaxRoots bounds the roots that a trust file may add.
const MaxRoots = 8

// roots are the ends that a chain may have.
type roots struct {
	intel *x509.Certificate
	// others are roots that are not Intel's: evidence under them is simulated.
	others []*x509.Certificate
}

func loadRoots(othersPEM []byte) (roots, error) {
	intel, err := parseCertificates(intelRootPEM)
	if err != nil {
		return roots{}, fmt.Errorf("embedded Intel root: %w", err)
	}
	r := roots{intel: intel[0]}
	if len(othersPEM) == 0 {
		return r, nil
	}
	others, err := parseCertificates(othersPEM)
	if err != nil {
		return roots{}, fmt.Errorf("other roots: %w", err)
	}
	for i, cert := range others {
		// The same key under another certificate would blur which root is which.
		if bytes.Equal(cert.RawSubjectPublicKeyInfo, r.intel.RawSubjectPublicKeyInfo) {
			return roots{}, fmt.Errorf("other roots: certificate %d is Intel's, which is trusted anyway; remove it", i)
		}
		if !cert.IsCA {
			return roots{}, fmt.Errorf("other roots: certificate %d (%s) is not a CA", i, cert.Subject)
		}
	}
	r.others = others
	return r, nil
}

// same finds the root that claimed is, byte for byte.
func (r roots) same(claimed *x509.Certificate) (root *x509.Certificate, simulated bool, err error) {
	for _, other := range r.others {
		if other.Equal(claimed) {
			return other, true, nil
		}
	}
	if !r.intel.Equal(claimed) {
		return nil, false, errors.New("it ends at an unknown authority")
	}
	return r.intel, false, nil
}

func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for rest := bytes.TrimSpace(text); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("something that is not a PEM certificate")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs), err)
		}
		certs = append(certs, cert)
		if len(certs) > MaxRoots {
			return nil, fmt.Errorf("more than %d certificates", MaxRoots)
		}
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate")
	}
	return certs, nil
}
