package statement

import (
	"encoding/binary"
	"fmt"
)

// SealingKey is a coordinator's assertion to an operator who seals a secret: the public key that only
// coordinators of this cluster ID can open.
type SealingKey struct {
	Coordinator
	// KeyEpoch is the epoch of the key, from 1.
	KeyEpoch uint32
	// PublicKey is the X25519 key (core/sealed), 32 bytes.
	PublicKey []byte
}

// Encode returns the one encoding, as Agent.Encode does.
func (s SealingKey) Encode() []byte { return encode(sealingKeyTag, s.fields()) }

// ReportData is the required report data of a quote for this statement.
func (s SealingKey) ReportData() [64]byte { return digest(sealingKeyTag, s.Encode()) }

// Validate reports all fields that are out of bounds.
func (s SealingKey) Validate() error { return validate(s.fields()) }

// DecodeSealingKey accepts exactly the encodings that Encode makes. The error wraps ErrNoncanonical or
// ErrVersion.
func DecodeSealingKey(b []byte) (SealingKey, error) {
	var s SealingKey
	if err := decode(sealingKeyTag, b, s.fields()); err != nil {
		return SealingKey{}, fmt.Errorf("sealing key statement: %w", err)
	}
	return s, nil
}

func (s *SealingKey) fields() []field {
	return append(s.Coordinator.fields(), number("key_epoch", &s.KeyEpoch), octets("public_key", &s.PublicKey, 32, 32))
}

// number is an integer from 1, in four bytes.
func number(name string, value *uint32) field {
	return field{
		name: name,
		get:  func() []byte { return binary.BigEndian.AppendUint32(nil, *value) },
		set: func(b []byte) {
			*value = 0
			if len(b) == 4 {
				*value = binary.BigEndian.Uint32(b)
			}
		},
		check: func(b []byte) string {
			if len(b) != 4 || binary.BigEndian.Uint32(b) == 0 {
				return "want four bytes, a number from 1"
			}
			return ""
		},
	}
}
