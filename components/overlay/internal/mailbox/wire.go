package mailbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/signal"
)

// Bounds of the wire.
const (
	// MaxFrame is the longest WebSocket message and the longest answer, in bytes.
	MaxFrame = 64 << 10
	// MaxBoots is how many Boots of a Slot a server names at once.
	MaxBoots = 4
	// MaxChain is how many certificates a chain has at most: leaf first.
	MaxChain = 3
	// MaxCertificate is the longest certificate, in bytes: MaxBoots chains of
	// MaxChain such certificates fit a frame in base64, with room for the rest.
	MaxCertificate = 3 << 10
	// MaxRevoked is how many Boots one request may revoke.
	MaxRevoked = 256
	// MaxICE is how many STUN and TURN URLs a server may offer.
	MaxICE = 16

	maxText = 512
	maxAcks = 128
)

// Paths of the HTTP interface. A mailbox is named
// PathMailbox/{cluster}/{group}/{slot}/{boot}. Boot "-" means the Boot that the envelope
// names (POST) or the caller's own Boot (GET).
const (
	PathMailbox      = "/v1/mailbox"
	PathCertificates = "/v1/certificates"
	PathCredentials  = "/v1/credentials"
	PathRevoked      = "/v1/revoked"
	PathHealth       = "/healthz"
)

// ErrWire reports bytes that no correct rendezvous or client sends.
var ErrWire = errors.New("invalid mailbox frame")

// FrameType is the purpose of a frame.
type FrameType string

const (
	// FrameFind asks for the Boots of a Slot (ID, Group, Slot).
	FrameFind FrameType = "find"
	// FrameSend hands an envelope over (ID, Envelope).
	FrameSend FrameType = "send"
	// FrameAck says that messages have arrived (Messages).
	FrameAck FrameType = "ack"
	// FrameRevoke has the complete list of ended Boots: it replaces the earlier list of
	// this Boot of a coordinator; coordinators only (ID, Revoked).
	FrameRevoke FrameType = "revoke"

	// FrameHello is the server's first (ICE, Reflectors).
	FrameHello FrameType = "hello"
	// FrameFound answers a find (ID, Boots).
	FrameFound FrameType = "found"
	// FrameDone answers a send or a revoke (ID).
	FrameDone FrameType = "done"
	// FrameRefused answers any request (ID, Code, Text, RetryMillis).
	FrameRefused FrameType = "refused"
	// FrameMessage delivers an envelope (Messages with one entry, Envelope).
	FrameMessage FrameType = "message"
	// FrameCredentials replaces the credentials of the hello (ICE, Reflectors).
	FrameCredentials FrameType = "credentials"
	// FrameGoodbye says that the server will close (Code, Text).
	FrameGoodbye FrameType = "goodbye"
)

// Frame is one WebSocket message. The comment of each type names its fields.
type Frame struct {
	Type FrameType `json:"type"`
	// ID pairs an answer with its request; a client never uses 0.
	ID         uint64      `json:"id,omitempty"`
	Group      string      `json:"group,omitempty"`
	Slot       string      `json:"slot,omitempty"`
	Envelope   []byte      `json:"envelope,omitempty"`
	Messages   []uint64    `json:"messages,omitempty"`
	Boots      []Boot      `json:"boots,omitempty"`
	Revoked    []string    `json:"revoked,omitempty"`
	ICE        []ICEServer `json:"ice,omitempty"`
	Reflectors []string    `json:"reflectors,omitempty"`
	Code       Code        `json:"code,omitempty"`
	Text       string      `json:"text,omitempty"`
	// RetryMillis says when to try again, in milliseconds; 0: no advice.
	RetryMillis int64 `json:"retry_after_ms,omitempty"`
}

// Boot is a Boot that is connected now, with the chain it showed, DER, leaf
// first. The receiver verifies it.
type Boot struct {
	Boot  string   `json:"boot"`
	Chain [][]byte `json:"chain"`
}

// ICEServer is one STUN or TURN URL, with the credentials of this Boot.
type ICEServer struct {
	URL      string `json:"url"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// Expires is when the credentials do; zero for STUN, which has none.
	Expires time.Time `json:"expires,omitzero"`
}

// Code is why a rendezvous refuses.
type Code string

const (
	// CodeUnauthenticated: no certificate, or not the mailbox's owner.
	CodeUnauthenticated = Code(signal.CodeUnauthenticated)
	// CodeForged: an envelope that is not the caller's own.
	CodeForged = Code(signal.CodeForged)
	// CodeUntrusted: a certificate that leads to no known cluster CA.
	CodeUntrusted Code = "SVID_UNTRUSTED"
	// CodeRevoked: a Boot that the cluster's coordinators have ended.
	CodeRevoked Code = "PEER_REVOKED"
	// CodeCluster: a request about another cluster.
	CodeCluster Code = "CLUSTER_MISMATCH"
	// CodeScope: a request that this identity may not make.
	CodeScope Code = "TOKEN_SCOPE_DENIED"
	// CodeUnknown: no Boot of that Slot is connected here.
	CodeUnknown Code = "SLOT_UNKNOWN"
	// CodeRate: more requests than an identity may make.
	CodeRate Code = "RATE_LIMITED"
	// CodeOverloaded: the mailbox or the server is full, or going away.
	CodeOverloaded Code = "OVERLOADED"
	// CodeRequest: a request that no correct client makes.
	CodeRequest Code = "BAD_REQUEST"
	// CodeTooLarge: a request longer than it may be.
	CodeTooLarge Code = "REQUEST_TOO_LARGE"
)

// Kind is the class of a [Code], which decides the caller's reaction.
type Kind string

const (
	// KindCaller: do not repeat the request as it is.
	KindCaller Kind = "caller"
	// KindPolicy: refused until a policy or state changes.
	KindPolicy Kind = "policy"
	// KindRetry: try again later.
	KindRetry Kind = "retry"
	// KindAlarm: a party broke a rule that no correct party breaks.
	KindAlarm Kind = "alarm"
)

// Kind classes c.
func (c Code) Kind() Kind {
	switch c {
	case CodeRate, CodeOverloaded:
		return KindRetry
	case CodeUnknown, CodeScope:
		return KindPolicy
	case CodeForged, CodeUntrusted, CodeRevoked, CodeCluster:
		return KindAlarm
	default:
		return KindCaller
	}
}

// Refusal is an answer of the HTTP interface that is not a success, and the
// error of a request that a rendezvous refused.
type Refusal struct {
	Kind        Kind   `json:"kind"`
	Code        Code   `json:"code"`
	Message     string `json:"message"`
	RetryMillis int64  `json:"retry_after_ms,omitempty"`
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("rendezvous refused: %s: %s", r.Code, r.Message)
}

// Is makes a refusal for want of identity signal.ErrUnauthenticated.
func (r *Refusal) Is(target error) bool {
	return r.Code == CodeUnauthenticated && target == signal.ErrUnauthenticated
}

// Poll answers a GET of a mailbox with the waiting messages. Messages stay until the
// owner names their IDs in ?ack= of a later GET, or their life ends.
type Poll struct {
	Messages []Waiting `json:"messages"`
}

// Waiting is one message of a [Poll].
type Waiting struct {
	ID       uint64 `json:"id"`
	Envelope []byte `json:"envelope"`
}

// Certificates answers a GET of PathCertificates/{cluster}/{group}/{slot}.
type Certificates struct {
	Boots []Boot `json:"boots"`
}

// Offer answers a POST of PathCredentials.
type Offer struct {
	ICE        []ICEServer `json:"ice"`
	Reflectors []string    `json:"reflectors"`
}

// Revocation is the body of a POST of PathRevoked. It replaces the earlier list of this
// Boot of a coordinator; an empty list takes it all back.
type Revocation struct {
	Boots []string `json:"boots"`
}

// ParseFrame reads one WebSocket message strictly: bounded before it is read,
// unknown fields refused, bounds of every list and text checked.
func ParseFrame(b []byte) (Frame, error) {
	var f Frame
	if err := Decode(b, &f); err != nil {
		return Frame{}, err
	}
	if err := f.validate(); err != nil {
		return Frame{}, fmt.Errorf("%w: %s: %w", ErrWire, f.Type, err)
	}
	return f, nil
}

// Encode gives the wire form of f.
func (f Frame) Encode() ([]byte, error) {
	b, err := json.Marshal(f)
	if err == nil && len(b) > MaxFrame {
		err = fmt.Errorf("%w: %s of %d bytes, at most %d", ErrWire, f.Type, len(b), MaxFrame)
	}
	return b, err
}

// Decode reads one JSON value of the wire into v strictly.
func Decode(b []byte, v any) error {
	if len(b) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrWire, len(b), MaxFrame)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrWire, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: trailing data", ErrWire)
	}
	return nil
}

func (f Frame) validate() error {
	switch {
	case len(f.Envelope) > signal.MaxEnvelope:
		return fmt.Errorf("envelope of %d bytes, at most %d", len(f.Envelope), signal.MaxEnvelope)
	case len(f.Group) > identity.MaxLabel, len(f.Slot) > identity.MaxLabel:
		return errors.New("name too long")
	case len(f.Text) > maxText, len(f.Code) > maxText:
		return errors.New("text too long")
	case len(f.Messages) > maxAcks:
		return fmt.Errorf("%d messages, at most %d", len(f.Messages), maxAcks)
	case f.RetryMillis < 0:
		return errors.New("negative time")
	}
	if err := checkRevoked(f.Revoked); err != nil {
		return err
	}
	if err := checkBoots(f.Boots); err != nil {
		return err
	}
	if err := checkOffer(f.ICE, f.Reflectors); err != nil {
		return err
	}
	return f.complete()
}

// complete checks that a frame has the fields of its type.
func (f Frame) complete() error {
	var ok bool
	switch f.Type {
	case FrameFind:
		ok = f.ID != 0 && f.Group != "" && f.Slot != ""
	case FrameSend:
		ok = f.ID != 0 && len(f.Envelope) > 0
	case FrameRevoke:
		ok = f.ID != 0
	case FrameAck:
		ok = len(f.Messages) > 0
	case FrameMessage:
		ok = len(f.Messages) == 1 && len(f.Envelope) > 0
	case FrameFound, FrameDone:
		ok = f.ID != 0
	case FrameRefused, FrameGoodbye:
		ok = f.Code != ""
	case FrameHello, FrameCredentials:
		ok = true
	default:
		return fmt.Errorf("unknown type %.20q", f.Type)
	}
	if !ok {
		return errors.New("incomplete")
	}
	return nil
}

// Check reads the bounds of a revocation.
func (r Revocation) Check() error {
	if r.Boots == nil {
		return fmt.Errorf("%w: no boots", ErrWire)
	}
	if err := checkRevoked(r.Boots); err != nil {
		return fmt.Errorf("%w: %w", ErrWire, err)
	}
	return nil
}

func checkRevoked(boots []string) error {
	if len(boots) > MaxRevoked {
		return fmt.Errorf("%d boots to revoke, at most %d", len(boots), MaxRevoked)
	}
	for _, b := range boots {
		if !isBoot(b) {
			return fmt.Errorf("boot %.20q: want 64 lower-case hex digits", b)
		}
	}
	return nil
}

func checkBoots(boots []Boot) error {
	if len(boots) > MaxBoots {
		return fmt.Errorf("%d boots, at most %d", len(boots), MaxBoots)
	}
	for _, b := range boots {
		if !isBoot(b.Boot) || len(b.Chain) == 0 || len(b.Chain) > MaxChain {
			return errors.New("boot without a name or with a chain that is too long or empty")
		}
		for _, c := range b.Chain {
			if len(c) > MaxCertificate {
				return fmt.Errorf("certificate of %d bytes, at most %d", len(c), MaxCertificate)
			}
		}
	}
	return nil
}

func checkOffer(ice []ICEServer, reflectors []string) error {
	if len(ice) > MaxICE || len(reflectors) > MaxICE {
		return fmt.Errorf("%d and %d servers, at most %d of each", len(ice), len(reflectors), MaxICE)
	}
	for _, s := range ice {
		if len(s.URL) > maxText || len(s.Username) > maxText || len(s.Password) > maxText {
			return errors.New("server with texts that are too long")
		}
	}
	for _, r := range reflectors {
		if len(r) > maxText {
			return errors.New("reflector with a text that is too long")
		}
	}
	return nil
}

// isBoot accepts the hex form of a SHA-256.
func isBoot(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
