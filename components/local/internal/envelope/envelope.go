package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// Limits of the guest; a set beyond them does not boot.
const (
	maxItems = 1024
	maxKey   = 255
	maxValue = 128 << 10
	maxTotal = 1 << 20
)

var keyRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Var is one variable.
type Var struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type plaintext struct {
	Env []Var `json:"env"`
}

// Encrypt seals vars for the owner of pub and returns hex.
func Encrypt(pub []byte, vars []Var) (string, error) {
	recipient, err := ecdh.X25519().NewPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("read env public key: %w", err)
	}
	eph, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make ephemeral key: %w", err)
	}
	iv := make([]byte, 12)
	rand.Read(iv)
	return seal(eph, recipient, iv, vars)
}

func seal(eph *ecdh.PrivateKey, recipient *ecdh.PublicKey, iv []byte, vars []Var) (string, error) {
	aead, err := aeadFor(eph, recipient)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(plaintext{Env: vars})
	if err != nil {
		return "", fmt.Errorf("encode env: %w", err)
	}
	out := append(append([]byte{}, eph.PublicKey().Bytes()...), iv...)
	return hex.EncodeToString(aead.Seal(out, iv, text, nil)), nil
}

// Decrypt opens the output of Encrypt and checks the guest's limits. Empty input is an empty set.
func Decrypt(key *ecdh.PrivateKey, sealedHex string) ([]Var, error) {
	if sealedHex == "" {
		return nil, nil
	}
	if len(sealedHex) > 2*(2*maxTotal+128) {
		return nil, fmt.Errorf("encrypted env is %d characters, beyond the limit", len(sealedHex))
	}
	sealed, err := hex.DecodeString(sealedHex)
	if err != nil {
		return nil, fmt.Errorf("encrypted env is not hex: %w", err)
	}
	if len(sealed) < 32+12+16 {
		return nil, errors.New("encrypted env is too short")
	}
	sender, err := ecdh.X25519().NewPublicKey(sealed[:32])
	if err != nil {
		return nil, fmt.Errorf("read sender key: %w", err)
	}
	aead, err := aeadFor(key, sender)
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, sealed[32:44], sealed[44:], nil)
	if err != nil {
		return nil, errors.New("encrypted env does not open with this app's key")
	}
	var p plaintext
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("parse decrypted env: %w", err)
	}
	return p.Env, check(p.Env)
}

// Filter keeps the variables whose key is in allowed; others are dropped
// silently, as in the real guest.
func Filter(vars []Var, allowed []string) map[string]string {
	ok := make(map[string]bool, len(allowed))
	for _, k := range allowed {
		ok[k] = true
	}
	out := make(map[string]string)
	for _, v := range vars {
		if ok[v.Key] {
			out[v.Key] = v.Value
		}
	}
	return out
}

func check(vars []Var) error {
	if len(vars) > maxItems {
		return fmt.Errorf("env has %d items; the limit is %d", len(vars), maxItems)
	}
	total := 0
	for _, v := range vars {
		total += len(v.Key) + len(v.Value)
		switch {
		case len(v.Key) > maxKey || !keyRule.MatchString(v.Key):
			return fmt.Errorf("env key %.40q: want letters, digits and _, at most %d", v.Key, maxKey)
		case len(v.Value) > maxValue:
			return fmt.Errorf("env key %s: value has %d bytes; the limit is %d", v.Key, len(v.Value), maxValue)
		case total > maxTotal:
			return fmt.Errorf("env has more than %d bytes in all", maxTotal)
		}
	}
	return nil
}

func aeadFor(key *ecdh.PrivateKey, peer *ecdh.PublicKey) (cipher.AEAD, error) {
	shared, err := key.ECDH(peer)
	if err != nil {
		return nil, fmt.Errorf("agree on env key: %w", err)
	}
	block, err := aes.NewCipher(shared)
	if err != nil {
		return nil, fmt.Errorf("make env cipher: %w", err)
	}
	return cipher.NewGCM(block)
}
