package dstacksdk_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/dstacksdk"
)

const appID = "0101010101010101010101010101010101010101"

func openCloud(t *testing.T) *attestsim.Cloud {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

func proof(t *testing.T, cloud *attestsim.Cloud, at time.Time) (key []byte, p dstacksdk.EnvKeyProof) {
	t.Helper()
	private, err := cloud.EnvKey(appID)
	if err != nil {
		t.Fatal(err)
	}
	p.Timestamp = uint64(at.Unix())
	if p.Signature, p.SignatureV1, err = cloud.SignEnvKey(appID, p.Timestamp); err != nil {
		t.Fatal(err)
	}
	return private.PublicKey().Bytes(), p
}

func TestAnEnvKeyNeedsItsKeyServicesSignature(t *testing.T) {
	cloud, other := openCloud(t), openCloud(t)
	service := cloud.KMSPublicKey()
	key, good := proof(t, cloud, time.Now())
	if err := good.Verify(service, key, appID); err != nil {
		t.Fatal(err)
	}
	for _, p := range []dstacksdk.EnvKeyProof{{Signature: good.Signature}, {SignatureV1: good.SignatureV1, Timestamp: good.Timestamp}} {
		if err := p.Verify(service, key, appID); err != nil {
			t.Error(err)
		}
	}
	_, forged := proof(t, other, time.Now())
	_, old := proof(t, cloud, time.Now().Add(-10*time.Minute))
	_, ahead := proof(t, cloud, time.Now().Add(10*time.Minute))
	flipped := slices.Clone(good.Signature)
	flipped[3] ^= 1
	otherKey := slices.Clone(key)
	otherKey[0] ^= 1
	for name, c := range map[string]struct {
		proof   dstacksdk.EnvKeyProof
		key     []byte
		app     string
		service []byte
	}{
		"another service's":         {dstacksdk.EnvKeyProof{Signature: forged.Signature}, key, appID, service},
		"another service's, dated":  {dstacksdk.EnvKeyProof{SignatureV1: forged.SignatureV1, Timestamp: forged.Timestamp}, key, appID, service},
		"one right, one not":        {dstacksdk.EnvKeyProof{Signature: good.Signature, SignatureV1: forged.SignatureV1, Timestamp: good.Timestamp}, key, appID, service},
		"a bit":                     {dstacksdk.EnvKeyProof{Signature: flipped}, key, appID, service},
		"for another key":           {good, otherKey, appID, service},
		"for another app":           {good, key, strings.Repeat("02", 20), service},
		"old":                       {dstacksdk.EnvKeyProof{SignatureV1: old.SignatureV1, Timestamp: old.Timestamp}, key, appID, service},
		"ahead":                     {dstacksdk.EnvKeyProof{SignatureV1: ahead.SignatureV1, Timestamp: ahead.Timestamp}, key, appID, service},
		"another date":              {dstacksdk.EnvKeyProof{SignatureV1: good.SignatureV1, Timestamp: good.Timestamp + 1}, key, appID, service},
		"short":                     {dstacksdk.EnvKeyProof{Signature: good.Signature[:64]}, key, appID, service},
		"none":                      {dstacksdk.EnvKeyProof{}, key, appID, service},
		"an app id that is not hex": {good, key, "zz", service},
		"no key service":            {good, key, appID, nil},
		"no curve point":            {good, key, appID, bytes.Repeat([]byte{2}, 32)},
	} {
		if err := c.proof.Verify(c.service, c.key, c.app); !errors.Is(err, dstacksdk.ErrEnvKey) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestTheSDKVerifiesTooLittle: a stranger's signature, a malformed one and one
// for other bytes give no error. So Verify compares, and fixes the lengths.
func TestTheSDKVerifiesTooLittle(t *testing.T) {
	cloud := openCloud(t)
	key, good := proof(t, cloud, time.Now())
	strangersKey, stranger := proof(t, openCloud(t), time.Now())
	signer, err := dstack.VerifyEnvEncryptPublicKey(strangersKey, stranger.Signature, appID)
	if err != nil || signer == nil {
		t.Errorf("a stranger's: %s, %v", signer, err)
	}
	if signer, err = dstack.VerifyEnvEncryptPublicKey(key, []byte("x"), appID); err != nil || signer != nil {
		t.Errorf("malformed: %s, %v", signer, err)
	}
	// The dated signature of a key is an undated one of a longer "key".
	long := append(binary.BigEndian.AppendUint64(nil, good.Timestamp), key...)
	signer, err = dstack.VerifyEnvEncryptPublicKey(long, good.SignatureV1, appID)
	if err != nil || string(signer) != "0x"+hex.EncodeToString(cloud.KMSPublicKey()) {
		t.Errorf("a key of 40 bytes: %s, %v", signer, err)
	}
	mixed := dstacksdk.EnvKeyProof{Signature: good.SignatureV1}
	if err := mixed.Verify(cloud.KMSPublicKey(), long, appID); !errors.Is(err, dstacksdk.ErrEnvKey) {
		t.Errorf("error %v", err)
	}
}
