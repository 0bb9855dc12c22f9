package attestsim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
)

// Report is the TD report body that a quote signs, field by field. A zero array stays zero in the
// quote.
type Report struct {
	TEETCBSVN      [16]byte
	MRSEAM         [48]byte
	MRSignerSEAM   [48]byte
	SEAMAttributes uint64
	TDAttributes   uint64
	XFAM           uint64
	MRTD           [48]byte
	MRConfigID     [48]byte
	MROwner        [48]byte
	MROwnerConfig  [48]byte
	RTMR           [4][48]byte
	ReportData     [64]byte
	// BodyType makes a quote of version 5 with a body of TD10 or TD15; 0: version 4.
	BodyType uint16
	// TEETCBSVN2 and MRServiceTD are of a body of TD15.
	TEETCBSVN2  [16]byte
	MRServiceTD [48]byte
}

// QuotingEnclave is the QE report's identity. RealQE is Intel's.
type QuotingEnclave struct {
	VendorID   [16]byte
	Attributes [16]byte
	MiscSelect uint32
	MRSigner   [32]byte
	ProdID     uint16
	SVN        uint16
}

// Attributes of a TD as dstack starts it: only SEPT_VE_DISABLE, and the CPU features of real hosts.
const (
	HealthyTDAttributes = uint64(1) << 28
	HealthyXFAM         = uint64(0x602e7)
)

// RealQE is the identity that Intel's quoting enclave for TDX has.
func RealQE() QuotingEnclave {
	qe := QuotingEnclave{ProdID: 2, SVN: 6}
	fill(qe.VendorID[:], "939a7233f79c4ca9940a0db3957f0607")
	fill(qe.MRSigner[:], "dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5")
	qe.Attributes[0], qe.Attributes[8] = 0x11, 0xe7
	return qe
}

// Quote makes a version 4 quote of report on the named host. All fields that a verifier recomputes
// are consistent; report and qe are used as given.
func (c *Cloud) Quote(hostName string, report Report, qe QuotingEnclave) ([]byte, error) {
	h, err := c.hostNamed(hostName)
	if err != nil {
		return nil, err
	}
	return h.quote(report, qe)
}

func (h *host) quote(report Report, qe QuotingEnclave) ([]byte, error) {
	le := binary.LittleEndian
	version := uint16(4)
	if report.BodyType != 0 {
		version = 5
	}
	quote := le.AppendUint16(nil, version)
	quote = le.AppendUint16(quote, 2)    // ECDSA P-256
	quote = le.AppendUint32(quote, 0x81) // TDX
	quote = append(quote, 0, 0, 0, 0)
	quote = append(quote, qe.VendorID[:]...)
	quote = append(quote, h.userData...)
	body := report.bytes()
	if version == 5 {
		quote = le.AppendUint16(quote, report.BodyType)
		quote = le.AppendUint32(quote, uint32(len(body)))
	}
	quote = append(quote, body...)

	signature, err := rawSignature(h.attestationKey, quote)
	if err != nil {
		return nil, fmt.Errorf("sign quote: %w", err)
	}
	attestationKey, err := rawPublicKey(h.attestationKey)
	if err != nil {
		return nil, fmt.Errorf("attestation key: %w", err)
	}
	auth := make([]byte, 32)
	for i := range auth {
		auth[i] = byte(i)
	}
	qeReport := qe.report(sha256.Sum256(append(append([]byte(nil), attestationKey...), auth...)))
	qeSignature, err := rawSignature(h.pckKey, qeReport)
	if err != nil {
		return nil, fmt.Errorf("sign QE report: %w", err)
	}

	inner := append(append([]byte(nil), qeReport...), qeSignature...)
	inner = le.AppendUint16(inner, uint16(len(auth)))
	inner = append(inner, auth...)
	inner = le.AppendUint16(inner, 5) // PCK chain
	inner = le.AppendUint32(inner, uint32(len(h.chain)))
	inner = append(inner, h.chain...)

	signed := append(append([]byte(nil), signature...), attestationKey...)
	signed = le.AppendUint16(signed, 6) // QE certification data
	signed = le.AppendUint32(signed, uint32(len(inner)))
	signed = append(signed, inner...)

	quote = le.AppendUint32(quote, uint32(len(signed)))
	return append(quote, signed...), nil
}

func (r Report) bytes() []byte {
	le := binary.LittleEndian
	b := append([]byte(nil), r.TEETCBSVN[:]...)
	b = append(b, r.MRSEAM[:]...)
	b = append(b, r.MRSignerSEAM[:]...)
	b = le.AppendUint64(b, r.SEAMAttributes)
	b = le.AppendUint64(b, r.TDAttributes)
	b = le.AppendUint64(b, r.XFAM)
	b = append(b, r.MRTD[:]...)
	b = append(b, r.MRConfigID[:]...)
	b = append(b, r.MROwner[:]...)
	b = append(b, r.MROwnerConfig[:]...)
	for _, rtmr := range r.RTMR {
		b = append(b, rtmr[:]...)
	}
	b = append(b, r.ReportData[:]...)
	if r.BodyType == TD15 {
		b = append(b, r.TEETCBSVN2[:]...)
		b = append(b, r.MRServiceTD[:]...)
	}
	return b
}

// The types of bodies in a quote of version 5.
const (
	TD10 = 2
	TD15 = 3
)

// report is the 384-byte SGX report that commits to the attestation key.
func (q QuotingEnclave) report(commitment [32]byte) []byte {
	b := make([]byte, 384)
	copy(b, cpuSVN)
	binary.LittleEndian.PutUint32(b[16:], q.MiscSelect)
	copy(b[48:], q.Attributes[:])
	mrEnclave := sha256.Sum256([]byte("simulated quoting enclave"))
	copy(b[64:], mrEnclave[:])
	copy(b[128:], q.MRSigner[:])
	binary.LittleEndian.PutUint16(b[256:], q.ProdID)
	binary.LittleEndian.PutUint16(b[258:], q.SVN)
	copy(b[320:], commitment[:])
	return b
}

// rawSignature is r and s of ECDSA over SHA-256 of message, 32 bytes each.
func rawSignature(key *ecdsa.PrivateKey, message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	der, err := steady{key}.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var sig struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		return nil, err
	}
	raw := make([]byte, 64)
	sig.R.FillBytes(raw[:32])
	sig.S.FillBytes(raw[32:])
	return raw, nil
}

// rawPublicKey is x and y, 32 bytes each.
func rawPublicKey(key *ecdsa.PrivateKey) ([]byte, error) {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	return point[1:], nil
}

// fill sets dst from a hex literal of this package.
func fill(dst []byte, literal string) {
	b, err := hex.DecodeString(literal)
	if err == nil {
		copy(dst, b)
	}
}
