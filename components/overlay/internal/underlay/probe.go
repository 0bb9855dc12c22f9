package underlay

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

const (
	// probeMark is the first byte of a probe. QUIC's have one of the two highest
	// bits set, STUN's are below 4.
	probeMark = 0x1f
	macSize   = 16
	macked    = 1 + 1 + 8 + 8 + 4
	probeSize = macked + macSize
)

// probeKind distinguishes a question from its answer.
type probeKind byte

const (
	// probeAsk is answered, by whom it is authentic to, with one of the same size.
	probeAsk probeKind = 1
	// probeEcho is the answer and is never answered.
	probeEcho probeKind = 2
)

// probeFlags say more; bits without a name are refused.
type probeFlags uint32

// flagInUse: the sender sends its traffic over this path.
const flagInUse probeFlags = 1

// probe is one, as sent.
type probe struct {
	kind  probeKind
	key   uint64
	seq   uint64
	flags probeFlags
}

// parseProbe parses a datagram from an unauthenticated sender. It leaves the MAC
// unchecked.
func parseProbe(b []byte) (probe, bool) {
	if len(b) != probeSize || b[0] != probeMark {
		return probe{}, false
	}
	p := probe{
		kind:  probeKind(b[1]),
		key:   binary.BigEndian.Uint64(b[2:]),
		seq:   binary.BigEndian.Uint64(b[10:]),
		flags: probeFlags(binary.BigEndian.Uint32(b[18:])),
	}
	if p.kind != probeAsk && p.kind != probeEcho || p.flags&^flagInUse != 0 {
		return probe{}, false
	}
	return p, true
}

// sealer makes and checks the MACs of one direction of a search.
type sealer struct {
	mu  sync.Mutex
	mac hash.Hash
	sum [sha256.Size]byte
}

// The two directions have keys of their own, so that a probe sent back to its
// sender is not authentic there.
const (
	labelID        = "cadre path probe: key id"
	labelInitiator = "cadre path probe: from the initiator"
	labelResponder = "cadre path probe: from the responder"
)

func derive(key [32]byte, label string) []byte {
	m := hmac.New(sha256.New, key[:])
	m.Write([]byte(label))
	return m.Sum(nil)
}

// keyID names a key without revealing it.
func keyID(key [32]byte) uint64 { return binary.BigEndian.Uint64(derive(key, labelID)) }

func newSealer(key [32]byte, fromInitiator bool) *sealer {
	label := labelResponder
	if fromInitiator {
		label = labelInitiator
	}
	return &sealer{mac: hmac.New(sha256.New, derive(key, label))}
}

// seal writes p into b.
func (s *sealer) seal(b *[probeSize]byte, p probe) {
	b[0], b[1] = probeMark, byte(p.kind)
	binary.BigEndian.PutUint64(b[2:], p.key)
	binary.BigEndian.PutUint64(b[10:], p.seq)
	binary.BigEndian.PutUint32(b[18:], uint32(p.flags))
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(b[macked:], s.tag(b[:macked]))
}

// genuine checks the MAC of a probe that parseProbe has read.
func (s *sealer) genuine(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hmac.Equal(b[macked:probeSize], s.tag(b[:macked]))
}

func (s *sealer) tag(b []byte) []byte {
	s.mac.Reset()
	s.mac.Write(b)
	return s.mac.Sum(s.sum[:0])[:macSize]
}

// window distinguishes fresh sequence numbers from repeated ones. Its zero value has seen
// none. Several paths of different length share it, hence its size.
type window struct {
	seen bool
	top  uint64
	bits [windowSize / 64]uint64
}

const windowSize = 1024

// fresh records a number and reports whether it was new.
func (w *window) fresh(seq uint64) bool {
	switch {
	case !w.seen:
		w.seen, w.top = true, seq
	case seq > w.top:
		if seq-w.top >= windowSize {
			clear(w.bits[:])
		} else {
			for s := w.top + 1; s != seq; s++ {
				w.bits[s%windowSize/64] &^= 1 << (s % 64)
			}
		}
		w.top = seq
	case w.top-seq >= windowSize:
		return false
	case w.bits[seq%windowSize/64]&(1<<(seq%64)) != 0:
		return false
	}
	w.bits[seq%windowSize/64] |= 1 << (seq % 64)
	return true
}
