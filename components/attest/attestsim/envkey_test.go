package attestsim_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"
)

// TestEnvKeySignaturesAreTheKMSs checks them as the official SDK does.
func TestEnvKeySignaturesAreTheKMSs(t *testing.T) {
	cloud := openCloud(t)
	key, err := cloud.EnvKey(testAppID)
	if err != nil {
		t.Fatal(err)
	}
	now := uint64(time.Now().Unix())
	legacy, v1, err := cloud.SignEnvKey(testAppID, now)
	if err != nil {
		t.Fatal(err)
	}
	want := "0x" + hex.EncodeToString(cloud.KMSPublicKey())
	got, err := dstack.VerifyEnvEncryptPublicKey(key.PublicKey().Bytes(), legacy, testAppID)
	if err != nil || string(got) != want {
		t.Errorf("legacy signature by %s, error %v", got, err)
	}
	got, err = dstack.VerifyEnvEncryptPublicKeyWithTimestamp(key.PublicKey().Bytes(), v1, testAppID, now, nil)
	if err != nil || string(got) != want {
		t.Errorf("signature with timestamp by %s, error %v", got, err)
	}
}
