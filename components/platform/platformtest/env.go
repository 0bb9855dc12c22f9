package platformtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// OpenEnv decrypts sealed environment values as a guest does, with the app's
// X25519 key (32 bytes): eph_pub(32) || iv(12) || ciphertext || tag(16) in hex,
// the shared secret used directly as an AES-256-GCM key.
func OpenEnv(private []byte, sealed string) (map[string]string, error) {
	const keySize, ivSize, tagSize = 32, 12, 16
	raw, err := hex.DecodeString(sealed)
	if err != nil {
		return nil, fmt.Errorf("decode encrypted env: %w", err)
	}
	if len(raw) < keySize+ivSize+tagSize {
		return nil, fmt.Errorf("encrypted env has %d bytes, too short", len(raw))
	}
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	sender, err := ecdh.X25519().NewPublicKey(raw[:keySize])
	if err != nil {
		return nil, fmt.Errorf("read ephemeral key: %w", err)
	}
	shared, err := key.ECDH(sender)
	if err != nil {
		return nil, fmt.Errorf("agree on env key: %w", err)
	}
	block, err := aes.NewCipher(shared)
	if err != nil {
		return nil, fmt.Errorf("make env cipher: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make env cipher: %w", err)
	}
	plain, err := gcm.Open(nil, raw[keySize:keySize+ivSize], raw[keySize+ivSize:], nil)
	if err != nil {
		return nil, fmt.Errorf("decrypt env: %w", err)
	}
	var values struct {
		Env []struct{ Key, Value string } `json:"env"`
	}
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, fmt.Errorf("decode env: %w", err)
	}
	if values.Env == nil {
		return nil, errors.New("decode env: no list of values")
	}
	env := make(map[string]string, len(values.Env))
	for _, v := range values.Env {
		env[v.Key] = v.Value
	}
	return env, nil
}
