package attest

import (
	"encoding/binary"
	"fmt"

	"github.com/google/go-tdx-guest/abi"
	pb "github.com/google/go-tdx-guest/proto/tdx"
)

// MaxQuoteSize bounds a quote in bytes. Real ones are about 5 KiB.
const MaxQuoteSize = 16 << 10

// The fixed layout of a version 4 quote, little-endian: header 48, TD report
// body 584, then the signature data with its own length.
const (
	headerSize    = 48
	bodySize      = 584
	signedSize    = headerSize + bodySize
	signatureSize = 64
	keySize       = 64
	qeReportSize  = 384

	quoteVersion    = 4
	keyTypeP256     = 2
	teeTypeTDX      = 0x81
	certTypeQE      = 6
	certTypePCK     = 5
	maxAuthDataSize = 1 << 10
)

// parseQuote reads a TDX quote of version 4 or 5. It checks every length field against the
// remaining bytes, because the library trusts them. Zero bytes after the quote are padding;
// parseQuote rejects any other trailing bytes, so that no byte of an accepted quote is free to
// choose.
func parseQuote(raw []byte) (*tdQuote, error) {
	if len(raw) > MaxQuoteSize {
		return nil, refuse(CodeTooLarge, "quote has %d bytes, the limit is %d", len(raw), MaxQuoteSize)
	}
	var five *quote5
	if len(raw) >= headerSize && binary.LittleEndian.Uint16(raw) == quoteVersion5 {
		var err error
		if raw, five, err = asVersion4(raw); err != nil {
			return nil, err
		}
	}
	if len(raw) < signedSize+4 {
		return nil, refuse(CodeQuoteMalformed, "quote has %d bytes, too short for a header and a body", len(raw))
	}
	if v := binary.LittleEndian.Uint16(raw); v != quoteVersion {
		return nil, refuse(CodeUnsupportedVersion, "quote version %d, only versions %d and %d are supported", v, quoteVersion, quoteVersion5)
	}
	if tee := binary.LittleEndian.Uint32(raw[4:]); tee != teeTypeTDX {
		return nil, refuse(CodeTEETypeForbidden, "TEE type %#x, only TDX (%#x) is accepted", tee, teeTypeTDX)
	}
	if kt := binary.LittleEndian.Uint16(raw[2:]); kt != keyTypeP256 {
		return nil, refuse(CodeQuoteMalformed, "attestation key type %d, only %d (ECDSA P-256) exists here", kt, keyTypeP256)
	}
	end, err := checkFrame(raw)
	if err != nil {
		return nil, refuse(CodeQuoteMalformed, "%v", err)
	}
	for i, b := range raw[end:] {
		if b != 0 {
			return nil, refuse(CodeQuoteMalformed, "byte %d after the quote is not zero", i)
		}
	}
	parsed, err := toProto(raw[:end])
	if err != nil {
		return nil, refuse(CodeQuoteMalformed, "%v", err)
	}
	return &tdQuote{parsed, five}, nil
}

// checkFrame walks the nested lengths of the signature data and returns where
// the quote ends.
func checkFrame(raw []byte) (end int, err error) {
	size := binary.LittleEndian.Uint32(raw[signedSize:])
	data := raw[signedSize+4:]
	if uint64(size) > uint64(len(data)) {
		return 0, fmt.Errorf("signature data of %d bytes does not fit in the quote", size)
	}
	end = signedSize + 4 + int(size)
	data = data[:size]

	data, err = skip(data, signatureSize+keySize, "signature and attestation key")
	if err != nil {
		return 0, err
	}
	data, err = certification(data, certTypeQE)
	if err != nil {
		return 0, err
	}
	data, err = skip(data, qeReportSize+signatureSize, "QE report and its signature")
	if err != nil {
		return 0, err
	}
	if len(data) < 2 {
		return 0, fmt.Errorf("no length of the QE authentication data")
	}
	auth := int(binary.LittleEndian.Uint16(data))
	if auth > maxAuthDataSize {
		return 0, fmt.Errorf("QE authentication data of %d bytes, the limit is %d", auth, maxAuthDataSize)
	}
	data, err = skip(data, 2+auth, "QE authentication data")
	if err != nil {
		return 0, err
	}
	chain, err := certification(data, certTypePCK)
	if err != nil {
		return 0, err
	}
	if len(chain) == 0 {
		return 0, fmt.Errorf("the certificate chain is empty")
	}
	return end, nil
}

// certification opens a (type u16, size u32, data) block that must fill b.
func certification(b []byte, want uint16) ([]byte, error) {
	if len(b) < 6 {
		return nil, fmt.Errorf("no header of certification data type %d", want)
	}
	if got := binary.LittleEndian.Uint16(b); got != want {
		return nil, fmt.Errorf("certification data type %d where %d belongs", got, want)
	}
	size := binary.LittleEndian.Uint32(b[2:])
	if uint64(size) != uint64(len(b)-6) {
		return nil, fmt.Errorf("certification data type %d says %d bytes, there are %d", want, size, len(b)-6)
	}
	return b[6:], nil
}

func skip(b []byte, n int, what string) ([]byte, error) {
	if len(b) < n {
		return nil, fmt.Errorf("%s: %d bytes needed, %d left", what, n, len(b))
	}
	return b[n:], nil
}

// toProto is the library's parser. It slices without looking; checkFrame looks
// before, and the recover keeps a case that we have overlooked from ending the
// coordinator.
func toProto(raw []byte) (q *pb.QuoteV4, err error) {
	defer func() {
		if r := recover(); r != nil {
			q, err = nil, fmt.Errorf("quote parser: %v", r)
		}
	}()
	parsed, err := abi.QuoteToProto(raw)
	if err != nil {
		return nil, err
	}
	q, ok := parsed.(*pb.QuoteV4)
	if !ok {
		return nil, fmt.Errorf("quote parser returned %T", parsed)
	}
	return q, nil
}
