// Package audit is the hash chain of a cluster: one entry for each act of an operator, and for the
// leader's acts that an operator asks about later. Each entry names the digest of the entry before.
// The package is pure; the store writes an entry in the transaction of its act.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"cadre.dev/core/hashchain"
	"cadre.dev/core/policy"
)

// Actor is the kind of the author of an act.
type Actor string

const (
	// Operator: a caller of the API, named by its token.
	Operator Actor = "operator"
	// Leader: the coordinator that holds the Lease, named by its Slot.
	Leader Actor = "leader"
	// KV: a change that no caller of the API and no leader made. The leader found it in Consul KV,
	// which does not name the author.
	KV Actor = "kv"
)

// Bounds of an entry's texts, in bytes of JSON.
const (
	MaxBy      = 256
	MaxRequest = 128
	MaxVerb    = 40
	MaxObject  = 400
	MaxReason  = 600
	// MaxEntryBytes bounds the JSON of an entry with all of these texts.
	MaxEntryBytes = 2 << 10
)

// Entry is one act on one record. Its digest covers every field.
type Entry struct {
	// Number counts from 1.
	Number uint64 `json:"number"`
	// At is the time of the act, at least the time of the entry before.
	At time.Time `json:"at"`
	// The field Who has the kind of the author, and By its name: the name of an operator's token, or
	// the Slot of a leader. Request is the id of the API call, if it has one.
	Who     Actor  `json:"who"`
	By      string `json:"by"`
	Request string `json:"request,omitempty"`
	// Verb is the act in one word, such as apply or revoke. Object is the key of the record.
	Verb   string `json:"verb"`
	Object string `json:"object"`
	// Before and After are the SHA-256 of the record's value, 64 hex digits; empty: the record was
	// absent.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Previous is the digest of the entry before.
	Previous string `json:"previous"`
}

const (
	chain = "cadre/audit/v1\x00"
	// atLeast is the resolution of At.
	atLeast = time.Millisecond
)

// Digest is the digest of the entry, 64 hex digits.
func (e Entry) Digest() string {
	e.At = e.At.UTC()
	return hashchain.Digest(chain, e)
}

// ValueDigest is the digest of a record's value for Before and After; "" for an absent record.
func ValueDigest(value []byte, exists bool) string {
	if !exists {
		return ""
	}
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}

// Point is the chain up to the entry Number, whose digest is Digest. The zero Point is the chain
// without an entry.
type Point struct {
	Number uint64 `json:"number"`
	Digest string `json:"digest,omitempty"`
}

func (p Point) digest() string {
	if p.Number == 0 {
		return hashchain.Start(chain, "")
	}
	return p.Digest
}

// Head is the end of the chain, and the end of its removed part.
type Head struct {
	Last Point `json:"last"`
	// At is the time of the last entry.
	At time.Time `json:"at"`
	// Checkpoint is the last entry that was removed after it was written to the leader's log. The
	// entries that follow it are kept.
	Checkpoint Point `json:"checkpoint"`
}

// Kept is the number of entries that are kept.
func (h Head) Kept() uint64 { return h.Last.Number - h.Checkpoint.Number }

// Append adds an entry at the end of the chain. It sets Number and Previous, bounds the texts, and
// raises At to the time of the last entry, because the clocks of coordinators differ.
func (h Head) Append(e Entry) (Head, Entry) {
	e.Number, e.Previous = h.Last.Number+1, h.Last.digest()
	if e.At = e.At.UTC().Truncate(atLeast); e.At.Before(h.At) {
		e.At = h.At.UTC()
	}
	e.By = hashchain.Truncate(e.By, MaxBy-3)
	e.Request = hashchain.Truncate(e.Request, MaxRequest)
	e.Verb = hashchain.Truncate(e.Verb, MaxVerb)
	e.Object = hashchain.Truncate(e.Object, MaxObject)
	e.Reason = hashchain.Truncate(e.Reason, MaxReason-3)
	h.Last, h.At = Point{Number: e.Number, Digest: e.Digest()}, e.At
	return h, e
}

// Verifier checks entries in their order. The zero Verifier starts at the begin of the chain.
type Verifier struct {
	at   Point
	last time.Time
}

// After returns a Verifier of the entries that follow p.
func After(p Point) *Verifier { return &Verifier{at: p} }

// At is the last verified point.
func (v *Verifier) At() Point { return v.at }

// Next checks that e is the entry that follows. The error names the fault: an entry is missing,
// repeated or moved; an entry was edited; or its time is before that of the entry before.
func (v *Verifier) Next(e Entry) error {
	switch {
	case e.Number != v.at.Number+1:
		return broken("entry %d follows entry %d: entries are missing, repeated or in another order", e.Number, v.at.Number)
	case e.Previous != v.at.digest():
		return broken("entry %d does not name the digest of entry %d: one of them was edited", e.Number, v.at.Number)
	case e.At.Before(v.last):
		return broken("entry %d has the time %s, before that of entry %d", e.Number, e.At.Format(time.RFC3339Nano), v.at.Number)
	}
	v.at, v.last = Point{Number: e.Number, Digest: e.Digest()}, e.At
	return nil
}

// End checks that the verified entries end at p.
func (v *Verifier) End(p Point) error {
	switch {
	case v.at.Number != p.Number:
		return broken("the entries end at %d, and the head at %d: entries are missing", v.at.Number, p.Number)
	case v.at.digest() != p.digest():
		return broken("entry %d is not the entry that the head names: it was edited", p.Number)
	}
	return nil
}

func broken(format string, values ...any) error {
	return fmt.Errorf("%s: %s", policy.CodeAuditChainBroken, fmt.Sprintf(format, values...))
}
