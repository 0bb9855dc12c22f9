package attest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/google/go-tdx-guest/pcs"

	"cadre.dev/attest/collateral"
)

// pckChain is the certificate chain of one machine with signatures that hold up
// to one of the roots. Its dates are judged at each use, by the library.
type pckChain struct {
	leaf, ca, root *x509.Certificate
	// simulated: the root is not Intel's.
	simulated bool
	// machine has the leaf's fields; the quote's part is filled in per quote.
	machine collateral.Machine
	// name of the machine, see machineName; "": the certificate has none.
	name string
}

// The names in the certificates of a machine.
const (
	rootCAName = "Intel SGX Root CA"
	pckName    = "Intel SGX PCK Certificate"
)

// maxCached bounds each cache of a Verifier. A full cache is emptied: only verified entries get in,
// so an attacker gains nothing.
const maxCached = 256

// chainOf opens the quote's chain. A chain of the same bytes is opened once: its
// signatures cannot change.
func (v *Verifier) chainOf(quote *tdQuote) (*pckChain, error) {
	text := quote.GetSignedData().GetCertificationData().GetQeReportCertificationData().GetPckCertificateChainData().GetPckCertChain()
	digest := sha256.Sum256(text)
	v.mu.Lock()
	known := v.chains[digest]
	v.mu.Unlock()
	if known != nil {
		return known, nil
	}
	chain, err := v.openChain(text)
	if err != nil {
		return nil, refuse(CodeQuoteInvalid, "certificate chain: %v", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.chains == nil || len(v.chains) >= maxCached {
		v.chains = map[[32]byte]*pckChain{}
	}
	v.chains[digest] = chain
	return chain, nil
}

func (v *Verifier) openChain(text []byte) (*pckChain, error) {
	certs, err := threeCertificates(text)
	if err != nil {
		return nil, err
	}
	c := &pckChain{leaf: certs[0], ca: certs[1], root: certs[2]}
	if c.root, c.simulated, err = v.roots.same(certs[2]); err != nil {
		return nil, err
	}
	for i, name := range []string{pckName, collateral.PlatformCAName, rootCAName} {
		parent := certs[min(i+1, 2)]
		if err := checkLink(certs[i], parent, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	extension, err := pcs.PckCertificateExtensions(c.leaf)
	if err != nil {
		return nil, err
	}
	if len(extension.FMSPC) != 12 || len(extension.PCEID) != 4 || len(extension.TCB.CPUSvnComponents) != 16 {
		return nil, errors.New("the PCK certificate does not say FMSPC, PCE id and TCB")
	}
	c.machine = collateral.Machine{
		FMSPC: extension.FMSPC, PCEID: extension.PCEID, PCESVN: extension.TCB.PCESvn, SGX: [16]byte(extension.TCB.CPUSvnComponents),
	}
	if c.name, err = machineName(c.leaf); err != nil {
		return nil, err
	}
	return c, nil
}

func checkLink(cert, parent *x509.Certificate, name string) error {
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	switch {
	case cert.Subject.CommonName != name:
		return fmt.Errorf("the subject is %q", cert.Subject.CommonName)
	case !ok || key.Curve != elliptic.P256() || cert.SignatureAlgorithm != x509.ECDSAWithSHA256:
		return errors.New("not ECDSA with P-256 and SHA-256")
	case !bytes.Equal(cert.RawIssuer, parent.RawSubject):
		return errors.New("the issuer is not the next certificate")
	}
	return cert.CheckSignatureFrom(parent)
}

// threeCertificates parses leaf, intermediate and root. The chain must be their canonical PEM, with
// the NUL that Intel's library appends or without: text between or around the blocks would be
// unsigned.
func threeCertificates(chain []byte) (certs [3]*x509.Certificate, err error) {
	canonical := make([]byte, 0, len(chain))
	rest := chain
	for i := range certs {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return certs, errors.New("not three PEM certificates")
		}
		canonical = append(canonical, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		if certs[i], err = x509.ParseCertificate(block.Bytes); err != nil {
			return certs, err
		}
	}
	if !bytes.Equal(bytes.TrimSuffix(chain, []byte{0}), canonical) {
		return certs, errors.New("not in canonical PEM form")
	}
	return certs, nil
}
