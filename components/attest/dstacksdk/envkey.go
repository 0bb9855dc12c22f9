package dstacksdk

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// ErrEnvKey means that a signature over an env key is not the key service's.
var ErrEnvKey = errors.New("the env key's signature is not the key service's")

const (
	envKeySize    = 32
	appIDSize     = 20
	signatureSize = 65
)

// EnvKeyProof is a key service's statement about an app's env key. An empty signature counts as
// missing.
type EnvKeyProof struct {
	// Signature covers app id and key, SignatureV1 the Timestamp (Unix seconds)
	// as well. 65 bytes each.
	Signature, SignatureV1 []byte
	Timestamp              uint64
}

// ReadEnvKeyProof reads a proof whose signatures are hex, with 0x in front or without. The error names
// the field that is not hex; it is no empty signature, since that would count as none.
func ReadEnvKeyProof(signature, signatureV1 string, timestamp uint64) (p EnvKeyProof, err error) {
	if p.Signature, err = hex.DecodeString(strings.TrimPrefix(signature, "0x")); err != nil {
		return EnvKeyProof{}, errors.New("signature is not hex")
	}
	if p.SignatureV1, err = hex.DecodeString(strings.TrimPrefix(signatureV1, "0x")); err != nil {
		return EnvKeyProof{}, errors.New("signature_v1 is not hex")
	}
	p.Timestamp = timestamp
	return p, nil
}

// Given reports whether there is any signature.
func (p EnvKeyProof) Given() bool { return len(p.Signature) > 0 || len(p.SignatureV1) > 0 }

// Verify checks that service signed key for appID (40 hex characters). Each present signature must
// be right, and at least one must be present; with a timestamp it is at most 5 minutes old and 1
// minute ahead. Errors wrap ErrEnvKey.
//
// The SDK's functions recover any signer, and answer nil without an error for many malformed
// inputs; so Verify compares the signer itself. The functions accept a key of any length, too: the
// signed text has no lengths in it, so a signature with a timestamp equals one without for a key
// that begins with those bytes.
func (p EnvKeyProof) Verify(service, key []byte, appID string) error {
	id, err := hex.DecodeString(appID)
	switch {
	case err != nil || len(id) != appIDSize:
		return fmt.Errorf("%w: app id %q is not %d hex characters", ErrEnvKey, appID, 2*appIDSize)
	case len(key) != envKeySize:
		return fmt.Errorf("%w: the key has %d bytes, not %d", ErrEnvKey, len(key), envKeySize)
	case !p.Given():
		return fmt.Errorf("%w: none was given", ErrEnvKey)
	}
	if _, err := secp256k1.ParsePubKey(service); err != nil || len(service) != secp256k1.PubKeyBytesLenCompressed {
		return fmt.Errorf("%w: the key service's key is no compressed secp256k1 key", ErrEnvKey)
	}
	want := []byte("0x" + hex.EncodeToString(service))
	if len(p.Signature) > 0 {
		got, err := dstack.VerifyEnvEncryptPublicKey(key, p.Signature, appID)
		if err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%w: signature: signed by %s, want %s", ErrEnvKey, signer(got, err), want)
		}
	}
	if len(p.SignatureV1) > 0 {
		got, err := dstack.VerifyEnvEncryptPublicKeyWithTimestamp(key, p.SignatureV1, appID, p.Timestamp, nil)
		if err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%w: signature_v1: signed by %s, want %s", ErrEnvKey, signer(got, err), want)
		}
	}
	return nil
}

func signer(got []byte, err error) string {
	switch {
	case err != nil:
		return "no signer (" + err.Error() + ")"
	case got == nil:
		return "no signer (malformed)"
	}
	return string(got)
}

// keyServicePath names the key whose chain KeyService reads; it has no other use.
const keyServicePath, keyServicePurpose = "cadre/v1/key-service", "key-service"

// KeyService returns the public key, compressed secp256k1, of the service that gave this CVM its
// keys: the signer of its app key. It is as trustworthy as the keys of this CVM are.
func (c *Client) KeyService(ctx context.Context) ([]byte, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(info.AppID)
	if err != nil || len(id) != appIDSize {
		return nil, fmt.Errorf("guest agent Info: app id %q is not %d hex characters", info.AppID, 2*appIDSize)
	}
	key, err := c.Key(ctx, keyServicePath, keyServicePurpose)
	if err != nil {
		return nil, err
	}
	if len(key.Chain) != 2 {
		return nil, fmt.Errorf("guest agent GetKey: a signature chain of %d, not 2", len(key.Chain))
	}
	public := secp256k1.PrivKeyFromBytes(key.Key).PubKey().SerializeCompressed()
	app, err := recoverSigner(fmt.Appendf(nil, "%s:%x", keyServicePurpose, public), key.Chain[0])
	if err != nil {
		return nil, fmt.Errorf("guest agent GetKey: app key: %w", err)
	}
	message := append(append([]byte("dstack-kms-issued:"), id...), app...)
	service, err := recoverSigner(message, key.Chain[1])
	if err != nil {
		return nil, fmt.Errorf("guest agent GetKey: key service: %w", err)
	}
	return service, nil
}

// recoverSigner is the compressed key that signed keccak256(message): r, s and the
// recovery id. The SDK has it for env keys only.
func recoverSigner(message, signature []byte) ([]byte, error) {
	if len(signature) != signatureSize || signature[64] > 3 {
		return nil, fmt.Errorf("a signature is not %d bytes with a recovery id of 0 to 3", signatureSize)
	}
	h := sha3.NewLegacyKeccak256()
	h.Write(message)
	const compressed = 27 + 4
	compact := append([]byte{compressed + signature[64]}, signature[:64]...)
	key, _, err := ecdsa.RecoverCompact(compact, h.Sum(nil))
	if err != nil {
		return nil, fmt.Errorf("recover a signer: %w", err)
	}
	return key.SerializeCompressed(), nil
}
