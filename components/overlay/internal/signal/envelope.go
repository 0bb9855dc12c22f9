package signal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"cadre.dev/overlay/internal/identity"
)

// MaxEnvelope is the longest envelope, in bytes; longer ones are refused before
// anything is read from them.
const MaxEnvelope = 8 << 10

const (
	envelopeVersion = 1
	bootLen         = sha256.Size
	maxChain        = 3
	maxSignature    = 256
	// signLabel separates our signatures from all others made with an SVID key.
	signLabel = "cadre-signal-v1\x00"
)

// Header is the part of an envelope that a mailbox may see. All of it is unauthenticated
// until [Open] accepts the envelope.
type Header struct {
	From     identity.ID
	FromBoot string
	To       identity.ID
	ToBoot   string
	Epoch    uint64
	// Seq grows with each message of a sender's Boot.
	Seq uint64
	// Expires is on the sender's clock, to the millisecond.
	Expires time.Time
}

// envelope is the parsed form. The wire form, integers big-endian, str = one
// length byte and the bytes, blob = two length bytes and the bytes:
//
//	header    version(1) str cluster, from group, from slot; boot(32)
//	          str to group, to slot; boot(32); epoch(8) seq(8) expires(8, ms)
//	chain     count(1), then that many blobs: DER certificates, leaf first
//	payload   blob: HPKE encapsulated key and ciphertext
//	signature blob: over signLabel | header | SHA-256(payload)
//
// The chain is not signed: it must name the header's sender and Boot, and lead
// to the cluster CA.
type envelope struct {
	Header
	header    []byte
	chain     [][]byte
	payload   []byte
	signature []byte
}

// Peek reads the header of an envelope, and checks that the rest has the form
// of one. For mailboxes; recipients use [Open].
func Peek(b []byte) (Header, error) {
	e, err := parseEnvelope(b)
	return e.Header, err
}

func appendHeader(b []byte, h Header) ([]byte, error) {
	from, err := bootBytes(h.FromBoot)
	if err != nil {
		return nil, err
	}
	to, err := bootBytes(h.ToBoot)
	if err != nil {
		return nil, err
	}
	if h.From.Cluster != h.To.Cluster {
		return nil, fmt.Errorf("from cluster %s to cluster %s", h.From.Cluster, h.To.Cluster)
	}
	for _, id := range []identity.ID{h.From, h.To} {
		if err := id.Validate(); err != nil {
			return nil, err
		}
	}
	b = append(b, envelopeVersion)
	for _, s := range []string{h.From.Cluster, h.From.Group, h.From.Slot} {
		b = append(append(b, byte(len(s))), s...)
	}
	b = append(b, from[:]...)
	for _, s := range []string{h.To.Group, h.To.Slot} {
		b = append(append(b, byte(len(s))), s...)
	}
	b = append(b, to[:]...)
	b = binary.BigEndian.AppendUint64(b, h.Epoch)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	return binary.BigEndian.AppendUint64(b, uint64(h.Expires.UnixMilli())), nil
}

func (e envelope) append() ([]byte, error) {
	b := append([]byte(nil), e.header...)
	b = append(b, byte(len(e.chain)))
	for _, c := range append(append([][]byte(nil), e.chain...), e.payload, e.signature) {
		if len(c) > MaxEnvelope {
			return nil, fmt.Errorf("a part of %d bytes", len(c))
		}
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(c))), c...)
	}
	if len(b) > MaxEnvelope {
		return nil, fmt.Errorf("envelope of %d bytes, at most %d", len(b), MaxEnvelope)
	}
	return b, nil
}

func parseEnvelope(b []byte) (envelope, error) {
	if len(b) > MaxEnvelope {
		return envelope{}, fmt.Errorf("%w: envelope of %d bytes, at most %d", ErrForged, len(b), MaxEnvelope)
	}
	r := reader{rest: b}
	if v := r.take(1); v != nil && v[0] != envelopeVersion {
		return envelope{}, fmt.Errorf("%w: envelope version %d, want %d", ErrForged, v[0], envelopeVersion)
	}
	var e envelope
	e.From = identity.ID{Cluster: r.str(), Group: r.str(), Slot: r.str()}
	e.FromBoot = hex.EncodeToString(r.take(bootLen))
	e.To = identity.ID{Cluster: e.From.Cluster, Group: r.str(), Slot: r.str()}
	e.ToBoot = hex.EncodeToString(r.take(bootLen))
	e.Epoch, e.Seq = r.uint64(), r.uint64()
	e.Expires = time.UnixMilli(int64(r.uint64()))
	e.header = b[:len(b)-len(r.rest)]
	if n := r.take(1); n != nil {
		if n[0] == 0 || n[0] > maxChain {
			return envelope{}, fmt.Errorf("%w: chain of %d certificates, want 1 to %d", ErrForged, n[0], maxChain)
		}
		for range n[0] {
			e.chain = append(e.chain, r.blob())
		}
	}
	e.payload, e.signature = r.blob(), r.blob()
	switch {
	case r.short:
		return envelope{}, fmt.Errorf("%w: envelope ends early", ErrForged)
	case len(r.rest) > 0:
		return envelope{}, fmt.Errorf("%w: %d bytes behind the envelope", ErrForged, len(r.rest))
	case len(e.signature) > maxSignature:
		return envelope{}, fmt.Errorf("%w: signature of %d bytes", ErrForged, len(e.signature))
	}
	if err := errors.Join(e.From.Validate(), e.To.Validate()); err != nil {
		return envelope{}, fmt.Errorf("%w: %w", ErrForged, err)
	}
	return e, nil
}

// signed returns the bytes under the signature.
func (e envelope) signed() []byte {
	sum := sha256.Sum256(e.payload)
	b := make([]byte, 0, len(signLabel)+len(e.header)+len(sum))
	b = append(b, signLabel...)
	b = append(b, e.header...)
	return append(b, sum[:]...)
}

// reader takes bounded pieces off a byte string. Once it is short it stays so,
// and gives zero values.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || len(r.rest) < n {
		r.short = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) str() string {
	if n := r.take(1); n != nil {
		return string(r.take(int(n[0])))
	}
	return ""
}

func (r *reader) blob() []byte {
	if n := r.take(2); n != nil {
		return r.take(int(binary.BigEndian.Uint16(n)))
	}
	return nil
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}
