package attest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/google/go-tdx-guest/abi"
	pb "github.com/google/go-tdx-guest/proto/tdx"

	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
)

// The layout of a version 5 quote: the header of version 4, the type (u16) and size (u32)
// of the body, the body, then the signature data of version 4. The body of TD 1.0 is that
// of version 4; that of TD 1.5 has TEE_TCB_SVN_2 and MRSERVICETD in addition.
const (
	quoteVersion5  = 5
	bodyHeaderSize = 6
	bodyTypeTD10   = 2
	bodyTypeTD15   = 3
	tcbSVNSize     = 16
	bodySize15     = bodySize + tcbSVNSize + 48
)

// tdQuote is a quote of either version. The library knows version 4 only, so that of a
// version 5 it has the parts that both have.
type tdQuote struct {
	*pb.QuoteV4
	five *quote5 // nil: version 4
}

// quote5 is the part of version 5 beyond version 4.
type quote5 struct {
	// signed is the data that the attestation key signed.
	signed []byte
	// secondSVN is TEE_TCB_SVN_2: the present TDX module, where the quote's first SVN is the module
	// at the start of the TD. nil in a body of TD 1.0.
	secondSVN []byte
	// serviceTD is MRSERVICETD; nil in a body of TD 1.0.
	serviceTD []byte
}

// asVersion4 splits a version 5 quote: into the same quote as version 4, and the additional part.
func asVersion4(raw []byte) ([]byte, *quote5, error) {
	if len(raw) < headerSize+bodyHeaderSize {
		return nil, nil, refuse(CodeQuoteMalformed, "quote has %d bytes, too short for a header", len(raw))
	}
	kind, size := binary.LittleEndian.Uint16(raw[headerSize:]), binary.LittleEndian.Uint32(raw[headerSize+2:])
	want := map[uint16]uint32{bodyTypeTD10: bodySize, bodyTypeTD15: bodySize15}[kind]
	switch {
	case want == 0:
		return nil, nil, refuse(CodeTEETypeForbidden, "quote body of type %d, only those of TD 1.0 (2) and TD 1.5 (3) are accepted", kind)
	case size != want:
		return nil, nil, refuse(CodeQuoteMalformed, "quote body of type %d has %d bytes, not %d", kind, size, want)
	}
	end := headerSize + bodyHeaderSize + int(size)
	if len(raw) < end {
		return nil, nil, refuse(CodeQuoteMalformed, "quote has %d bytes, too short for a header and a body", len(raw))
	}
	five := &quote5{signed: raw[:end]}
	body := raw[headerSize+bodyHeaderSize : end]
	if kind == bodyTypeTD15 {
		five.secondSVN, five.serviceTD = body[bodySize:bodySize+tcbSVNSize], body[bodySize+tcbSVNSize:]
	}
	four := slices.Concat(raw[:headerSize], body[:bodySize], raw[end:])
	binary.LittleEndian.PutUint16(four, quoteVersion)
	return four, five, nil
}

// verify makes the same checks as the library for a version 4: the dates of the chain, its
// signatures, the QE report, the attestation key that it commits to, and the signature of that key.
func (f *quote5) verify(q *pb.QuoteV4, chain *pckChain, now time.Time) error {
	for _, cert := range []*x509.Certificate{chain.leaf, chain.ca, chain.root} {
		if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
			return fmt.Errorf("certificate %q is valid from %s to %s", cert.Subject.CommonName, cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	data := q.GetSignedData()
	qe := data.GetCertificationData().GetQeReportCertificationData()
	report, err := abi.EnclaveReportToAbiBytes(qe.GetQeReport())
	if err != nil {
		return fmt.Errorf("QE report: %w", err)
	}
	leaf, ok := chain.leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || !signedBy(leaf, report, qe.GetQeReportSignature()) {
		return errors.New("the QE report is not signed by the PCK certificate")
	}
	key := data.GetEcdsaAttestationKey()
	commitment := sha256.Sum256(slices.Concat(key, qe.GetQeAuthData().GetData()))
	if !bytes.Equal(qe.GetQeReport().GetReportData(), append(commitment[:], make([]byte, 32)...)) {
		return errors.New("the QE report does not commit to the attestation key")
	}
	attestation, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, key...))
	if err != nil {
		return fmt.Errorf("attestation key: %w", err)
	}
	if !signedBy(attestation, f.signed, data.GetSignature()) {
		return errors.New("header and body are not signed by the attestation key")
	}
	return nil
}

// signedBy verifies r‖s over the SHA-256 of message.
func signedBy(key *ecdsa.PublicKey, message, signature []byte) bool {
	if key.Curve != elliptic.P256() || len(signature) != signatureSize {
		return false
	}
	digest := sha256.Sum256(message)
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	return ecdsa.Verify(key, digest[:], r, s)
}

// check rejects a TD that is bound to a service TD, which may move its memory to an unverified
// machine.
func (f *quote5) check() error {
	if f != nil && !isZero(f.serviceTD) {
		return refuse(CodeTDAttributesForbidden, "MRSERVICETD is %x, must be zero", f.serviceTD)
	}
	return nil
}

// evaluate judges the present module in addition to the module at the start of the TD. The worse of
// both counts: an update of the module does not repair a TD that began under the old one; the CVM
// must restart.
func (f *quote5) evaluate(set *collateral.Set, m collateral.Machine) (policy.TCB, error) {
	first, err := set.Evaluate(m)
	if err != nil || f == nil || f.secondSVN == nil {
		return first, err
	}
	copy(m.TDX[:], f.secondSVN)
	second, err := set.Evaluate(m)
	if err != nil {
		return policy.TCB{}, err
	}
	return collateral.Worse(first, second), nil
}
