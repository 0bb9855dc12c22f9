// Package envcrypt seals environment values for a CVM as dstack guests expect:
// X25519 with an ephemeral key, the shared secret used directly as an
// AES-256-GCM key, and the output eph_pub(32) || iv(12) || ciphertext || tag(16).
//
// It gives secrecy from those who do not hold the app's key, and no proof of
// origin: env values must never carry a trust decision.
package envcrypt

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

const (
	keySize = 32
	ivSize  = 12
	tagSize = 16

	maxItems = 1024
	maxKey   = 255
	maxValue = 128 << 10
	maxTotal = 1 << 20
)

var keyName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ErrEnv means that the values break the guest's rules, which would drop them without a word.
var ErrEnv = errors.New("env refused")

type item struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type payload struct {
	Env []item `json:"env"`
}

// Keys returns the names in the order in which they are sealed: sorted, so that
// equal sets give equal allowed_envs and so equal compose hashes.
func Keys(env map[string]string) []string {
	keys := make([]string, 0, len(env))
	for k := range env {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Check reports what the guest would refuse or drop; nil when nothing.
func Check(env map[string]string) error {
	if len(env) > maxItems {
		return fmt.Errorf("%w: %d values, the guest takes at most %d", ErrEnv, len(env), maxItems)
	}
	total := 0
	var errs []error
	for _, k := range Keys(env) {
		if !keyName.MatchString(k) || len(k) > maxKey {
			errs = append(errs, fmt.Errorf("%w: name %q must be letters, digits and '_', not starting with a digit, at most %d bytes", ErrEnv, k, maxKey))
		}
		if len(env[k]) > maxValue {
			errs = append(errs, fmt.Errorf("%w: value of %s has %d bytes, at most %d", ErrEnv, k, len(env[k]), maxValue))
		}
		total += len(k) + len(env[k])
	}
	if total > maxTotal {
		errs = append(errs, fmt.Errorf("%w: %d bytes in all, at most %d", ErrEnv, total, maxTotal))
	}
	return errors.Join(errs...)
}

// Seal encrypts env for the recipient's X25519 public key (32 bytes) and returns hex.
func Seal(recipient []byte, env map[string]string) (string, error) {
	return seal(rand.Reader, recipient, env)
}

func seal(random io.Reader, recipient []byte, env map[string]string) (string, error) {
	if err := Check(env); err != nil {
		return "", err
	}
	seed := make([]byte, keySize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	ephemeral, err := ecdh.X25519().NewPrivateKey(seed)
	if err != nil {
		return "", fmt.Errorf("make ephemeral key: %w", err)
	}
	iv := make([]byte, ivSize)
	if _, err := io.ReadFull(random, iv); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	gcm, err := agree(ephemeral, recipient)
	if err != nil {
		return "", err
	}
	plain, err := encode(env)
	if err != nil {
		return "", err
	}
	out := slices.Concat(ephemeral.PublicKey().Bytes(), iv)
	return hex.EncodeToString(gcm.Seal(out, iv, plain, nil)), nil
}

// Open decrypts what Seal made, with the recipient's private key (32 bytes).
// Guests do this; here it serves the local cloud and tests.
func Open(private []byte, sealed string) (map[string]string, error) {
	if len(sealed) > 2*(maxTotal*2+keySize+ivSize+tagSize) {
		return nil, fmt.Errorf("%w: encrypted env is too large", ErrEnv)
	}
	raw, err := hex.DecodeString(sealed)
	if err != nil {
		return nil, fmt.Errorf("decode encrypted env: %w", err)
	}
	if len(raw) < keySize+ivSize+tagSize {
		return nil, fmt.Errorf("%w: encrypted env has %d bytes, too short", ErrEnv, len(raw))
	}
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	gcm, err := agree(key, raw[:keySize])
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, raw[keySize:keySize+ivSize], raw[keySize+ivSize:], nil)
	if err != nil {
		return nil, fmt.Errorf("decrypt env: %w", err)
	}
	var p payload
	if err := json.Unmarshal(plain, &p); err != nil {
		return nil, fmt.Errorf("decode env: %w", err)
	}
	env := make(map[string]string, len(p.Env))
	for _, it := range p.Env {
		env[it.Key] = it.Value
	}
	return env, Check(env)
}

func agree(private *ecdh.PrivateKey, public []byte) (cipher.AEAD, error) {
	pub, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("read env public key: %w", err)
	}
	shared, err := private.ECDH(pub)
	if err != nil {
		return nil, fmt.Errorf("agree on env key: %w", err)
	}
	block, err := aes.NewCipher(shared)
	if err != nil {
		return nil, fmt.Errorf("make env cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

func encode(env map[string]string) ([]byte, error) {
	p := payload{Env: []item{}}
	for _, k := range Keys(env) {
		p.Env = append(p.Env, item{k, env[k]})
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("encode env: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
