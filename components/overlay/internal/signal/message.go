package signal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// Type is the purpose of a [Message].
type Type string

const (
	// Offer opens a search.
	Offer Type = "offer"
	// Answer accepts one.
	Answer Type = "answer"
	// Candidates adds addresses to one.
	Candidates Type = "candidates"
	// Nudge asks the side that opens searches to open one.
	Nudge Type = "nudge"
	// Bye ends a search.
	Bye Type = "bye"
)

// Bounds of a [Message]; a recipient refuses a larger one (OVL-09).
const (
	// MaxCandidates is how many candidates of each kind one message may name.
	MaxCandidates = 16
	// MaxCandidate is the longest candidate line, in bytes.
	MaxCandidate = 256
	// SearchLen is the length of a search's name: 16 hex digits.
	SearchLen = 16
	// KeyLen is the length of a side's share of the path key, in bytes.
	KeyLen = 32

	maxICE     = 256
	maxTCPKind = 16
	maxOneWay  = 60_000_000
	// maxEpoch leaves room above every clock, so that no Peer can use numbers up.
	maxEpoch = 1 << 62
)

// Message is one step of finding a path between two Boots. The zero value of a
// field means that the step has nothing to say about it.
type Message struct {
	Type Type `json:"type"`
	// Epoch is the link's epoch: it grows with each search of a pair, and one
	// side of the pair alone makes it grow. A Nudge has none.
	Epoch uint64 `json:"epoch"`
	// Search is 16 hex digits; empty only for a Nudge.
	Search string `json:"attempt,omitempty"` // its name on the wire
	// FromBoot and ToBoot repeat the envelope's: Seal fills them in, Open checks
	// that they agree.
	FromBoot string `json:"from_boot"`
	ToBoot   string `json:"to_boot"`
	// Ufrag and Pwd are the ICE credentials of the sender's agent.
	Ufrag string `json:"ufrag,omitempty"`
	Pwd   string `json:"pwd,omitempty"`
	// Key is the sender's share of the path key, 32 random bytes; see PathKey.
	Key []byte `json:"key,omitempty"`
	// Candidates are ICE candidate lines, at most MaxCandidates.
	Candidates []string `json:"candidates,omitempty"`
	// TCP are addresses for direct TCP, at most MaxCandidates.
	TCP []TCPCandidate `json:"tcp,omitempty"`
	// OneWayMicros estimates the way to the reflector in microseconds: half the
	// round trip. It times the simultaneous open, 0 when unknown.
	OneWayMicros int64 `json:"one_way_micros,omitempty"`
	// Last says that no more candidates of this search will follow.
	Last bool `json:"last,omitempty"`
}

// TCPCandidate is an address at which the sender may be reached over TCP.
type TCPCandidate struct {
	// Kind is "host", "mapped" or "listen"; see package punch.
	Kind string         `json:"kind"`
	Addr netip.AddrPort `json:"addr"`
}

// Validate checks the bounds. The users of its addresses judge them.
func (m Message) Validate() error {
	switch m.Type {
	case Offer, Answer, Candidates, Nudge, Bye:
	default:
		return fmt.Errorf("unknown type %.20q", m.Type)
	}
	if m.Epoch > maxEpoch {
		return fmt.Errorf("epoch %d: at most %d", m.Epoch, uint64(maxEpoch))
	}
	if m.Search == "" && m.Type != Nudge {
		return fmt.Errorf("%s without a search", m.Type)
	}
	if m.Search != "" && !isHex(m.Search, SearchLen) {
		return fmt.Errorf("search %.40q: want %d lower-case hex digits", m.Search, SearchLen)
	}
	if len(m.Ufrag) > maxICE || len(m.Pwd) > maxICE {
		return fmt.Errorf("ICE credentials longer than %d bytes", maxICE)
	}
	if len(m.Key) != 0 && len(m.Key) != KeyLen {
		return fmt.Errorf("key share of %d bytes, want %d", len(m.Key), KeyLen)
	}
	if len(m.Candidates) > MaxCandidates || len(m.TCP) > MaxCandidates {
		return fmt.Errorf("%d and %d candidates, at most %d of each kind", len(m.Candidates), len(m.TCP), MaxCandidates)
	}
	for _, c := range m.Candidates {
		if c == "" || len(c) > MaxCandidate {
			return fmt.Errorf("candidate of %d bytes, want 1 to %d", len(c), MaxCandidate)
		}
	}
	for _, c := range m.TCP {
		if c.Kind == "" || len(c.Kind) > maxTCPKind || !c.Addr.IsValid() || c.Addr.Port() == 0 || c.Addr.Addr().Zone() != "" {
			return errors.New("TCP candidate without kind, address or port")
		}
	}
	if m.OneWayMicros < 0 || m.OneWayMicros > maxOneWay {
		return fmt.Errorf("one way of %d µs, want 0 to %d", m.OneWayMicros, maxOneWay)
	}
	return nil
}

func (m Message) encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(m)
}

func decodeMessage(b []byte) (Message, error) {
	var m Message
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return Message{}, fmt.Errorf("decode message: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Message{}, errors.New("decode message: trailing data")
	}
	return m, m.Validate()
}

// isHex accepts n lower-case hex digits.
func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// bootBytes reads a Boot's name: the hex form of a SHA-256.
func bootBytes(s string) ([bootLen]byte, error) {
	var b [bootLen]byte
	if !isHex(s, 2*bootLen) {
		return b, fmt.Errorf("boot %.20q: want %d lower-case hex digits", s, 2*bootLen)
	}
	_, err := hex.Decode(b[:], []byte(s))
	return b, err
}
