package envcrypt

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"testing"
)

// The vector of platform.md 9.1: ephemeral key 32 x 22, IV 12 x 33.
func TestSealVector(t *testing.T) {
	recipient, err := hex.DecodeString("7b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13")
	if err != nil {
		t.Fatal(err)
	}
	random := bytes.NewReader(append(bytes.Repeat([]byte{0x22}, 32), bytes.Repeat([]byte{0x33}, 12)...))
	env := map[string]string{"B": "x y", "A": "1"}
	got, err := seal(random, recipient, env)
	if err != nil {
		t.Fatal(err)
	}
	const want = "0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f2033333333333333333333333313c2a34971c12ae4f37f3e84eda2c29c25586721baa2462c3647b40f36bd4ac244c9eb1d63b673aa2dba9fe1031eabb91bfa859f6289c20802a862d24edd108d8b8b9e880d75a1b4b460d8"
	if got != want {
		t.Errorf("seal(%v) = %s, want %s", env, got, want)
	}
	back, err := Open(bytes.Repeat([]byte{0x11}, 32), got)
	if err != nil || !maps.Equal(back, env) {
		t.Errorf("Open = %v, %v, want %v", back, err, env)
	}
}

func TestSealIsFreshEachTime(t *testing.T) {
	private := bytes.Repeat([]byte{0x11}, 32)
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HTML": "a<b>&c", "EMPTY": ""}
	first, err := Seal(key.PublicKey().Bytes(), env)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Seal(key.PublicKey().Bytes(), env)
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Error("two seals gave the same ciphertext")
	}
	back, err := Open(private, second)
	if err != nil || !maps.Equal(back, env) {
		t.Errorf("Open = %v, %v, want %v", back, err, env)
	}
}

func TestRefusals(t *testing.T) {
	key := bytes.Repeat([]byte{9}, 32)
	for name, env := range map[string]map[string]string{
		"digit first": {"1A": ""},
		"dash":        {"A-B": ""},
		"long value":  {"A": strings.Repeat("x", maxValue+1)},
	} {
		if _, err := Seal(key, env); !errors.Is(err, ErrEnv) {
			t.Errorf("%s: Seal error = %v, want ErrEnv", name, err)
		}
	}
	if _, err := Seal(key[:31], map[string]string{"A": "1"}); err == nil {
		t.Error("a short public key was accepted")
	}
	for _, bad := range []string{"", "zz", strings.Repeat("00", 59), strings.Repeat("00", 80)} {
		if _, err := Open(key, bad); err == nil {
			t.Errorf("Open(%q) succeeded", bad)
		}
	}
}
