// Package sealed encrypts the secrets of operators to the coordinators: HPKE (RFC 9180) in base mode
// with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM.
//
// The associated data of a ciphertext names its only place (Place). A ciphertext therefore opens for no
// other cluster, group, name or epoch.
package sealed

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"cadre.dev/core/secret"
)

const (
	// KeySize is the size of a public key, and of the seed of a private key, in bytes.
	KeySize = 32
	// Overhead is the number of bytes of a ciphertext beyond its value: the encapsulated key and the tag.
	Overhead = KeySize + 16

	// info separates these ciphertexts from every other use of HPKE.
	info = "cadre operator secret v1"
)

// ErrNotOpened reports a ciphertext that is not of this place, of another key, or damaged.
var ErrNotOpened = errors.New("the ciphertext does not open: it is damaged, of another key, or of another secret or epoch")

// Place is the one place that a ciphertext belongs to.
type Place struct {
	// ClusterID is the cluster ID (core/clusterid).
	ClusterID   string
	Group, Name string
	// Epoch of the secret, from 1.
	Epoch uint32
	// KeyEpoch is the epoch of the coordinators' key, from 1.
	KeyEpoch uint32
}

// data is the associated data: each part with its length, so that no two places have one encoding.
func (p Place) data() []byte {
	var out []byte
	for _, part := range []string{p.ClusterID, p.Group, p.Name} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	out = binary.BigEndian.AppendUint32(out, p.Epoch)
	return binary.BigEndian.AppendUint32(out, p.KeyEpoch)
}

// Seal encrypts value to public, a key of KeySize bytes. Two calls give two ciphertexts. The result has
// Overhead bytes more than value.
func Seal(public []byte, at Place, value secret.Value) ([]byte, error) {
	key, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("read the coordinators' sealing key: %w", err)
	}
	encapsulated, sender, err := hpke.NewSender(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(info))
	if err != nil {
		return nil, fmt.Errorf("seal to the coordinators' key: %w", err)
	}
	text, err := sender.Seal(at.data(), value.Reveal())
	if err != nil {
		return nil, fmt.Errorf("seal to the coordinators' key: %w", err)
	}
	return append(encapsulated, text...), nil
}

// Key is the coordinators' private key. Safe for concurrent use.
type Key struct {
	// Behind a function, as in secret.Value: fmt would print the bytes.
	private func() hpke.PrivateKey
}

// NewKey derives the key of a seed of KeySize bytes. Equal seeds give equal keys.
func NewKey(seed secret.Value) (Key, error) {
	if seed.Len() != KeySize {
		return Key{}, fmt.Errorf("make the sealing key: the seed has %d bytes, want %d", seed.Len(), KeySize)
	}
	private, err := hpke.DHKEM(ecdh.X25519()).DeriveKeyPair(seed.Reveal())
	if err != nil {
		return Key{}, fmt.Errorf("make the sealing key: %w", err)
	}
	return Key{private: func() hpke.PrivateKey { return private }}, nil
}

// Public returns the public key, KeySize bytes.
func (k Key) Public() []byte { return k.private().PublicKey().Bytes() }

// Open returns the value of a ciphertext that was sealed for this place: else ErrNotOpened.
func (k Key) Open(at Place, ciphertext []byte) (secret.Value, error) {
	if len(ciphertext) < Overhead {
		return secret.Value{}, ErrNotOpened
	}
	recipient, err := hpke.NewRecipient(ciphertext[:KeySize], k.private(), hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(info))
	if err != nil {
		return secret.Value{}, ErrNotOpened
	}
	value, err := recipient.Open(at.data(), ciphertext[KeySize:])
	if err != nil {
		return secret.Value{}, ErrNotOpened
	}
	return secret.New(value), nil
}

// Digest names a ciphertext, 64 lower-case hex digits. It is a digest of random bytes and so says
// nothing about the value.
func Digest(ciphertext []byte) string {
	sum := sha256.Sum256(ciphertext)
	return hex.EncodeToString(sum[:])
}
