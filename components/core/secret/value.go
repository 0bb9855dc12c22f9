package secret

import (
	"bytes"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is the printed form of every Value.
const Redacted = "[redacted]"

// Value holds secret bytes. It is immutable; the zero Value is empty. Values are
// compared with Equal, in constant time; == does not compile.
type Value struct {
	// Behind a function, because fmt calls no method on an unexported field of
	// another struct and follows pointers for some verbs: it would print the bytes.
	// Of a function there is only an address to print.
	bytes func() []byte
}

// New takes a copy of raw; empty raw gives the zero Value.
func New(raw []byte) Value {
	if len(raw) == 0 {
		return Value{}
	}
	kept := bytes.Clone(raw)
	return Value{bytes: func() []byte { return kept }}
}

// FromString is New of a text.
func FromString(text string) Value { return New([]byte(text)) }

// Reveal is a copy of the bytes, for the one place that needs them.
func (v Value) Reveal() []byte {
	if v.bytes == nil {
		return nil
	}
	return bytes.Clone(v.bytes())
}

// RevealString is Reveal as a text.
func (v Value) RevealString() string { return string(v.Reveal()) }

// IsZero reports that there is nothing inside.
func (v Value) IsZero() bool { return v.bytes == nil }

// Len is the number of bytes, which is not secret.
func (v Value) Len() int {
	return len(v.Reveal())
}

// Equal compares the bytes in a time that does not depend on where they differ.
func (v Value) Equal(o Value) bool {
	return subtle.ConstantTimeCompare(v.Reveal(), o.Reveal()) == 1
}

// String is Redacted.
func (Value) String() string { return Redacted }

// GoString is Redacted, for %#v.
func (Value) GoString() string { return Redacted }

// Format writes Redacted for every verb: %x and %q would not ask String.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue is Redacted.
func (Value) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText gives Redacted to JSON, XML and every encoder of texts. There is no
// way back: a Value is never read from a document.
func (Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }
