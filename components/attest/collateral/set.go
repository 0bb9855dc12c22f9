package collateral

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
)

// The names in Intel's certificates.
const (
	rootName       = "Intel SGX Root CA"
	tcbSigningName = "Intel SGX TCB Signing"
	// PlatformCAName is the intermediate of every machine with TDX.
	PlatformCAName = "Intel SGX PCK Platform CA"
)

// Set is a Bundle with valid signatures under one root. Its dates and revocations may have changed
// since: see Fresh. It does not change and is safe for concurrent use.
type Set struct {
	digest [32]byte
	root   *x509.Certificate
	tcb    tcbInfo
	qe     qeIdentity
	// signers of TCB info and QE identity, and the CA of the PCK CRL.
	tcbSigner, qeSigner, platformCA *x509.Certificate
	pckCRL, rootCRL                 *x509.RevocationList
	// serials of the two lists, sorted, so that a long list costs little per quote.
	pckRevoked, rootRevoked []*big.Int
	encoded                 []byte
}

// Open reads every part of b and checks every signature up to root, which must be the very
// certificate at the end of each chain. Dates and revocations are not judged here. The error is
// COLLATERAL_UNAVAILABLE: this collateral is unusable.
func Open(b Bundle, root *x509.Certificate) (*Set, error) {
	encoded, err := b.Encode() // checks the sizes first
	if err != nil {
		return nil, err
	}
	s := &Set{digest: b.Digest(), root: root, encoded: encoded}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"tcb_info", func() error { return s.openTCBInfo(b) }},
		{"qe_identity", func() error { return s.openQEIdentity(b) }},
		{"pck_crl", func() error { return s.openPCKCRL(b) }},
		{"root_crl", func() (err error) { s.rootCRL, s.rootRevoked, err = openCRL(b.RootCRL, root); return err }},
	} {
		if err := step.do(); err != nil {
			return nil, unusable("%s: %v", step.name, err)
		}
	}
	return s, nil
}

func (s *Set) openTCBInfo(b Bundle) error {
	inner, signature, err := signed(b.TCBInfo, "tcbInfo")
	if err != nil {
		return err
	}
	if s.tcbSigner, err = issuer(b.TCBInfoChain, tcbSigningName, s.root); err != nil {
		return err
	}
	if err := checkSignature(s.tcbSigner, inner, signature); err != nil {
		return err
	}
	s.tcb, err = readTCBInfo(inner)
	return err
}

func (s *Set) openQEIdentity(b Bundle) error {
	inner, signature, err := signed(b.QEIdentity, "enclaveIdentity")
	if err != nil {
		return err
	}
	if s.qeSigner, err = issuer(b.QEIdentityChain, tcbSigningName, s.root); err != nil {
		return err
	}
	if err := checkSignature(s.qeSigner, inner, signature); err != nil {
		return err
	}
	s.qe, err = readQEIdentity(inner)
	return err
}

func (s *Set) openPCKCRL(b Bundle) (err error) {
	if s.platformCA, err = issuer(b.PCKCRLChain, PlatformCAName, s.root); err != nil {
		return err
	}
	s.pckCRL, s.pckRevoked, err = openCRL(b.PCKCRL, s.platformCA)
	return err
}

// issuer opens a chain of exactly two: the signer of that name and root.
func issuer(chain, name string, root *x509.Certificate) (*x509.Certificate, error) {
	var certs []*x509.Certificate
	for rest := bytes.TrimSpace([]byte(chain)); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" || len(certs) == 2 {
			return nil, errors.New("issuer chain: not exactly two PEM certificates")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("issuer chain: %w", err)
		}
		certs = append(certs, cert)
	}
	if len(certs) != 2 {
		return nil, errors.New("issuer chain: not exactly two PEM certificates")
	}
	signer, end := certs[0], certs[1]
	switch {
	case !end.Equal(root):
		return nil, errors.New("issuer chain: ends at another root than the quote")
	case root.Subject.CommonName != rootName:
		return nil, fmt.Errorf("issuer chain: the root is called %q", root.Subject.CommonName)
	case signer.Subject.CommonName != name:
		return nil, fmt.Errorf("issuer chain: signed by %q, want %q", signer.Subject.CommonName, name)
	case signer.SignatureAlgorithm != x509.ECDSAWithSHA256 || !bytes.Equal(signer.RawIssuer, root.RawSubject):
		return nil, errors.New("issuer chain: the signer's certificate has another form than Intel's")
	}
	if key, ok := signer.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("issuer chain: the signer's key is not one of P-256")
	}
	if err := signer.CheckSignatureFrom(root); err != nil {
		return nil, fmt.Errorf("issuer chain: %w", err)
	}
	return signer, nil
}

// checkSignature verifies r‖s over the unchanged bytes.
func checkSignature(signer *x509.Certificate, message, signature []byte) error {
	key, ok := signer.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return errors.New("the signer's key is not ECDSA")
	}
	digest := sha256.Sum256(message)
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	if !ecdsa.Verify(key, digest[:], r, s) {
		return errors.New("the signature does not verify")
	}
	return nil
}

// openCRL checks a list's signature and returns the serials in order.
func openCRL(der []byte, issuer *x509.Certificate) (*x509.RevocationList, []*big.Int, error) {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(list.RawIssuer, issuer.RawSubject) {
		return nil, nil, fmt.Errorf("it is a list of %q, not of %q", list.Issuer, issuer.Subject)
	}
	if err := list.CheckSignatureFrom(issuer); err != nil {
		return nil, nil, err
	}
	if list.ThisUpdate.IsZero() || !list.NextUpdate.After(list.ThisUpdate) {
		return nil, nil, errors.New("it has no time of the next update")
	}
	serials := make([]*big.Int, 0, len(list.RevokedCertificateEntries))
	for _, entry := range list.RevokedCertificateEntries {
		serials = append(serials, entry.SerialNumber)
	}
	slices.SortFunc(serials, (*big.Int).Cmp)
	return list, serials, nil
}

// Digest names the content, Encoded is the canonical document.
func (s *Set) Digest() [32]byte { return s.digest }

// Encoded is the canonical document; the caller must not change it.
func (s *Set) Encoded() []byte { return s.encoded }

// FMSPC is the family of machines that the TCB info covers.
func (s *Set) FMSPC() string { return s.tcb.FMSPC }

// Mark is the mark of s that is remembered against replays of older collateral.
func (s *Set) Mark() policy.CollateralWatermark {
	return policy.CollateralWatermark{
		FMSPC: s.tcb.FMSPC, TCBEvaluation: s.tcb.EvaluationNumber, QEEvaluation: s.qe.EvaluationNumber,
		TCBUntil: s.tcb.NextUpdate, QEUntil: s.qe.NextUpdate, IssuedAt: s.newestIssue(),
	}
}

// clockSlack is how far this clock may lag behind Intel's.
const clockSlack = 2 * time.Minute

func (s *Set) newestIssue() time.Time {
	return latest(s.tcb.IssueDate, s.qe.IssueDate, s.pckCRL.ThisUpdate, s.rootCRL.ThisUpdate)
}

// ValidUntil is when the first part of s ends.
func (s *Set) ValidUntil() time.Time {
	return earliest(s.tcb.NextUpdate, s.qe.NextUpdate, s.pckCRL.NextUpdate, s.rootCRL.NextUpdate,
		s.tcbSigner.NotAfter, s.qeSigner.NotAfter, s.platformCA.NotAfter, s.root.NotAfter)
}

// Fresh reports why s must not be used at now: a part has expired, or is older than maxAge (0: no
// such limit), or is from the future, which only proves that this clock is behind.
func (s *Set) Fresh(now time.Time, maxAge time.Duration) error {
	if newest := s.newestIssue(); now.Add(clockSlack).Before(newest) {
		return refusal.New(policy.CodeClockUntrusted, "collateral was issued at %s, the clock says %s", stamp(newest), stamp(now))
	}
	for _, cert := range []*x509.Certificate{s.root, s.platformCA, s.tcbSigner, s.qeSigner} {
		if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
			return refusal.New(policy.CodeCollateralExpired, "certificate %q of the collateral is valid from %s to %s", cert.Subject.CommonName, stamp(cert.NotBefore), stamp(cert.NotAfter))
		}
	}
	for _, part := range []struct {
		name        string
		from, until time.Time
	}{
		{"TCB info", s.tcb.IssueDate, s.tcb.NextUpdate},
		{"QE identity", s.qe.IssueDate, s.qe.NextUpdate},
		{"PCK CRL", s.pckCRL.ThisUpdate, s.pckCRL.NextUpdate},
		{"root CRL", s.rootCRL.ThisUpdate, s.rootCRL.NextUpdate},
	} {
		if now.After(part.until) {
			return refusal.New(policy.CodeCollateralExpired, "%s ended at %s", part.name, stamp(part.until))
		}
		// The root's list is made once a year; its own dates bound it.
		if maxAge > 0 && part.name != "root CRL" && now.Sub(part.from) > maxAge {
			return refusal.New(policy.CodeCollateralExpired, "%s of %s is older than %s", part.name, stamp(part.from), maxAge)
		}
	}
	return nil
}

// Revoked reports which certificate is on a list: the quote's leaf, its CA, or a
// signer of the collateral itself. The CA must be the one whose list s has.
func (s *Set) Revoked(leaf, ca *x509.Certificate) error {
	if !bytes.Equal(ca.RawSubjectPublicKeyInfo, s.platformCA.RawSubjectPublicKeyInfo) || !bytes.Equal(ca.RawSubject, s.platformCA.RawSubject) {
		return unusable("the revocation list is of another CA than the quote's")
	}
	if contains(s.pckRevoked, leaf.SerialNumber) {
		return refusal.New(policy.CodeQuoteRevoked, "the machine's PCK certificate %x is revoked", leaf.SerialNumber)
	}
	if contains(s.rootRevoked, ca.SerialNumber) {
		return refusal.New(policy.CodeQuoteRevoked, "the CA of the machine's PCK certificate is revoked")
	}
	for _, signer := range []*x509.Certificate{s.platformCA, s.tcbSigner, s.qeSigner} {
		if contains(s.rootRevoked, signer.SerialNumber) {
			return unusable("%q, the signer of the collateral, is revoked", signer.Subject.CommonName)
		}
	}
	return nil
}

func contains(sorted []*big.Int, serial *big.Int) bool {
	_, found := slices.BinarySearchFunc(sorted, serial, (*big.Int).Cmp)
	return found
}

func latest(times ...time.Time) time.Time   { return slices.MaxFunc(times, time.Time.Compare) }
func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }
func stamp(t time.Time) string              { return t.UTC().Format(time.RFC3339) }
