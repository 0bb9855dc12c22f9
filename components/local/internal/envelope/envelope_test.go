package envelope

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"testing"
)

func key(t *testing.T, fill byte) *ecdh.PrivateKey {
	t.Helper()
	k, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The vector was computed by an independent implementation of the scheme.
const vector = "0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f2033333333333333333333333313c2a34971c12ae4f37f3e84eda2c29c25586721baa2462c3647b40f36bd4ac244c9eb1d63b673aa2dba9fe1031eabb91bfa859f6289c20802a862d24edd108d8b8b9e880d75a1b4b460d8"

func TestSealAgreesWithVector(t *testing.T) {
	vars := []Var{{"A", "1"}, {"B", "x y"}}
	got, err := seal(key(t, 0x22), key(t, 0x11).PublicKey(), bytes.Repeat([]byte{0x33}, 12), vars)
	if err != nil {
		t.Fatal(err)
	}
	if got != vector {
		t.Errorf("seal = %s\nwant   %s", got, vector)
	}
}

func TestDecryptOpensVectorAndDropsKeysThatAreNotAllowed(t *testing.T) {
	vars, err := Decrypt(key(t, 0x11), vector)
	if err != nil {
		t.Fatal(err)
	}
	got := Filter(vars, []string{"B", "C"})
	if len(got) != 1 || got["B"] != "x y" {
		t.Errorf("Filter = %v, want only B", got)
	}
}

func TestDecryptRefuses(t *testing.T) {
	raw, _ := hex.DecodeString(vector)
	raw[len(raw)-1] ^= 1
	bad, err := Encrypt(key(t, 0x11).PublicKey().Bytes(), []Var{{"1A", "x"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"tampered": hex.EncodeToString(raw), "short": "00ff", "not hex": "zz", "bad key name": bad,
	} {
		if _, err := Decrypt(key(t, 0x11), in); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := Decrypt(key(t, 0x44), vector); err == nil {
		t.Error("another app's key opened it")
	}
}
