package statement

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"

	"cadre.dev/core/clusterid"
)

// Version is the encoding's version, the only version that Decode reads.
const Version = 1

// MaxSize bounds an encoding in bytes; more is refused before it is read.
const MaxSize = 4 << 10

// Bounds of the byte fields.
const (
	minKey, maxKey     = 32, 512
	minNonce, maxNonce = 16, 256
	exporterSize       = 32
	maxName            = 63
)

// ErrNoncanonical reports that the bytes are not the one encoding of any statement. Its public code
// is STATEMENT_NONCANONICAL.
var ErrNoncanonical = errors.New("not a canonical statement")

// ErrVersion reports that the bytes are a statement of another version. Its public code is
// UNSUPPORTED_VERSION.
var ErrVersion = errors.New("unsupported statement version")

// field is one field of a statement, by reference.
type field struct {
	name string
	get  func() []byte
	set  func([]byte)
	// check is the bound, "" if the value is within it.
	check func([]byte) string
}

func encode(tag string, fields []field) []byte {
	b := binary.BigEndian.AppendUint16(nil, Version)
	b = appendPart(b, []byte(tag))
	for _, f := range fields {
		b = appendPart(b, f.get())
	}
	return b
}

func appendPart(b, part []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
	return append(b, part...)
}

func digest(tag string, encoding []byte) [64]byte {
	return sha512.Sum512(append(append([]byte(tag), 0), encoding...))
}

func validate(fields []field) error {
	var problems []error
	for _, f := range fields {
		if problem := f.check(f.get()); problem != "" {
			problems = append(problems, fmt.Errorf("%s: %s", f.name, problem))
		}
	}
	return errors.Join(problems...)
}

// decode fills fields from b. It re-encodes at the end, so that no rule above can
// let a second encoding through.
func decode(tag string, b []byte, fields []field) error {
	if len(b) > MaxSize {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrNoncanonical, len(b), MaxSize)
	}
	if len(b) < 2 {
		return fmt.Errorf("%w: %d bytes", ErrNoncanonical, len(b))
	}
	if v := binary.BigEndian.Uint16(b); v != Version {
		return fmt.Errorf("%w %d, only %d is supported", ErrVersion, v, Version)
	}
	rest := b[2:]
	part, rest, err := nextPart(rest)
	if err != nil || string(part) != tag {
		return fmt.Errorf("%w: the purpose is not %q", ErrNoncanonical, tag)
	}
	for _, f := range fields {
		if part, rest, err = nextPart(rest); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrNoncanonical, f.name, err)
		}
		if problem := f.check(part); problem != "" {
			return fmt.Errorf("%w: %s: %s", ErrNoncanonical, f.name, problem)
		}
		f.set(bytes.Clone(part))
	}
	if len(rest) != 0 {
		return fmt.Errorf("%w: %d bytes after the last field", ErrNoncanonical, len(rest))
	}
	if !bytes.Equal(encode(tag, fields), b) {
		return fmt.Errorf("%w: it encodes to other bytes", ErrNoncanonical)
	}
	return nil
}

func nextPart(b []byte) (part, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errors.New("its length is missing")
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, fmt.Errorf("%d bytes announced, %d left", n, len(b)-4)
	}
	return b[4 : 4+n], b[4+n:], nil
}

func octets(name string, p *[]byte, least, most int) field {
	return field{name, func() []byte { return *p }, func(b []byte) { *p = b }, func(b []byte) string {
		switch {
		case len(b) >= least && len(b) <= most:
			return ""
		case least == most:
			return fmt.Sprintf("%d bytes, must be %d", len(b), least)
		}
		return fmt.Sprintf("%d bytes, must be %d to %d", len(b), least, most)
	}}
}

func hexText(name string, p *string, size int) field {
	return text(name, p, func(b []byte) string {
		if len(b) != size || bytes.ContainsFunc(b, func(r rune) bool { return !isLowerHex(r) }) {
			return fmt.Sprintf("must be %d lower-case hex characters", size)
		}
		return ""
	})
}

func clusterIDText(name string, p *string) field {
	return text(name, p, func(b []byte) string {
		if clusterid.Check(string(b)) != nil {
			return "must be a cluster ID"
		}
		return ""
	})
}

// clusterIDOrNone is as clusterIDText, and empty.
func clusterIDOrNone(name string, p *string) field {
	f := clusterIDText(name, p)
	check := f.check
	f.check = func(b []byte) string {
		if len(b) == 0 {
			return ""
		}
		return check(b)
	}
	return f
}

func name(label string, p *string) field {
	return text(label, p, func(b []byte) string {
		bad := len(b) < 1 || len(b) > maxName || b[0] == '-' || b[len(b)-1] == '-' ||
			bytes.ContainsFunc(b, func(r rune) bool { return !isNameRune(r) })
		if bad {
			return fmt.Sprintf("must be 1 to %d lower-case letters, digits and inner '-'", maxName)
		}
		return ""
	})
}

func text(name string, p *string, check func([]byte) string) field {
	return field{name, func() []byte { return []byte(*p) }, func(b []byte) { *p = string(b) }, check}
}

func isLowerHex(r rune) bool { return '0' <= r && r <= '9' || 'a' <= r && r <= 'f' }

func isNameRune(r rune) bool { return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || r == '-' }
