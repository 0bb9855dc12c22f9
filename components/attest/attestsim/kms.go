package attestsim

import (
	"crypto/ecdh"
	stdecdsa "crypto/ecdsa"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// kms is the key management service of a Cloud.
type kms struct {
	root   *secp256k1.PrivateKey // signs app keys and env keys
	ca     *stdecdsa.PrivateKey  // P-256, its SPKI is the key provider id
	caSPKI []byte
	seed   []byte
}

func newKMS(seed []byte) (*kms, error) {
	raw, err := derive(seed, "kms-k256", 32)
	if err != nil {
		return nil, err
	}
	k := &kms{root: secp256k1.PrivKeyFromBytes(raw), seed: seed}
	if k.ca, err = deriveP256(seed, "kms-ca"); err != nil {
		return nil, err
	}
	k.caSPKI, err = x509.MarshalPKIXPublicKey(k.ca.Public())
	return k, err
}

// ratls is dstack's key derivation: HKDF-SHA256 with the salt "RATLS".
func ratls(key []byte, info string) ([]byte, error) {
	return hkdf.Key(sha256.New, key, []byte("RATLS"), info, 32)
}

// appKey is the key that the KMS gives to every instance of an app, and the KMS's signature over
// the app key's public half.
func (k *kms) appKey(appID []byte) (key, signature []byte, err error) {
	key, err = ratls(k.root.Serialize(), string(appID)+"app-key")
	if err != nil {
		return nil, nil, err
	}
	public := secp256k1.PrivKeyFromBytes(key).PubKey().SerializeCompressed()
	message := append([]byte("dstack-kms-issued:"), appID...)
	return key, signRecoverable(k.root, append(message, public...)), nil
}

// EnvKey is the X25519 key to which the environment of an app is encrypted. It
// depends on the app only.
func (c *Cloud) EnvKey(appID string) (*ecdh.PrivateKey, error) {
	id, err := decodeAppID(appID)
	if err != nil {
		return nil, err
	}
	raw, err := derive(c.kms.seed, "env-encrypt-key/"+hex.EncodeToString(id), 32)
	if err != nil {
		return nil, fmt.Errorf("derive env key: %w", err)
	}
	return ecdh.X25519().NewPrivateKey(raw)
}

// SignEnvKey signs the public half of EnvKey as the KMS does: v1 with a Unix
// timestamp in seconds, legacy without. Both are r, s and recovery id, 65 bytes.
func (c *Cloud) SignEnvKey(appID string, timestamp uint64) (legacy, v1 []byte, err error) {
	key, err := c.EnvKey(appID)
	if err != nil {
		return nil, nil, err
	}
	id, err := decodeAppID(appID)
	if err != nil {
		return nil, nil, err
	}
	prefix := append([]byte("dstack-env-encrypt-pubkey:"), id...)
	public := key.PublicKey().Bytes()
	legacy = signRecoverable(c.kms.root, append(append([]byte(nil), prefix...), public...))
	stamped := binary.BigEndian.AppendUint64(prefix, timestamp)
	return legacy, signRecoverable(c.kms.root, append(stamped, public...)), nil
}

func decodeAppID(appID string) ([]byte, error) {
	id, err := hex.DecodeString(appID)
	if err != nil || len(id) != 20 {
		return nil, fmt.Errorf("app id %q is not 40 hex characters", appID)
	}
	return id, nil
}

func keccak256(message []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(message)
	return h.Sum(nil)
}

// signRecoverable signs keccak256(message): r, s and the recovery id 0 or 1.
func signRecoverable(key *secp256k1.PrivateKey, message []byte) []byte {
	compact := ecdsa.SignCompact(key, keccak256(message), true)
	// The library puts 27 + 4 + id in front.
	return append(append([]byte(nil), compact[1:]...), compact[0]-31)
}
