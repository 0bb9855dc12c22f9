package sealed_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
)

func key(t *testing.T, first byte) sealed.Key {
	t.Helper()
	k, err := sealed.NewKey(secret.New(bytes.Repeat([]byte{first}, sealed.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var place = sealed.Place{ClusterID: "0123456789abcdef0123456789abcdef", Group: "web", Name: "s3-key", Epoch: 3, KeyEpoch: 1}

// TestTOK23_ACiphertextOpensInItsOnePlace: another cluster, group, name or epoch does not open it, nor
// does another key, and no changed byte is accepted.
func TestTOK23_ACiphertextOpensInItsOnePlace(t *testing.T) {
	k := key(t, 1)
	for _, size := range []int{1, 100, 64 << 10} {
		value := secret.New(bytes.Repeat([]byte{0xa5}, size))
		text, err := sealed.Seal(k.Public(), place, value)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) != size+sealed.Overhead || bytes.Contains(text, value.Reveal()[:min(size, 16)]) && size > 16 {
			t.Fatalf("%d bytes became %d", size, len(text))
		}
		got, err := k.Open(place, text)
		if err != nil || !got.Equal(value) {
			t.Fatalf("open: %v", err)
		}
		if again, err := sealed.Seal(k.Public(), place, value); err != nil || sealed.Digest(again) == sealed.Digest(text) {
			t.Errorf("two seals of one value are equal (%v)", err)
		}
	}
	text, err := sealed.Seal(k.Public(), place, secret.FromString("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*sealed.Place){
		"cluster": func(p *sealed.Place) { p.ClusterID = "f" + p.ClusterID[1:] }, "group": func(p *sealed.Place) { p.Group = "api" },
		"name": func(p *sealed.Place) { p.Name = "other" }, "an older epoch": func(p *sealed.Place) { p.Epoch-- }, "a newer epoch": func(p *sealed.Place) { p.Epoch++ },
		"key epoch": func(p *sealed.Place) { p.KeyEpoch++ }, "shifted names": func(p *sealed.Place) { p.Group, p.Name = "webs", "3-key" },
	} {
		other := place
		change(&other)
		if got, err := k.Open(other, text); !errors.Is(err, sealed.ErrNotOpened) || !got.IsZero() {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := key(t, 2).Open(place, text); !errors.Is(err, sealed.ErrNotOpened) {
		t.Errorf("another key: %v", err)
	}
	for n := range text {
		bad := bytes.Clone(text)
		bad[n] ^= 1
		_, changed := k.Open(place, bad)
		_, cut := k.Open(place, text[:n])
		if !errors.Is(changed, sealed.ErrNotOpened) || !errors.Is(cut, sealed.ErrNotOpened) {
			t.Errorf("byte %d: changed %v, cut %v", n, changed, cut)
		}
	}
}

// The derived key is the same on every coordinator, at every start and in every version: the records
// have ciphertexts to it.
func TestTheKeyOfASeedStaysTheSame(t *testing.T) {
	const want = "41852320ff367495fa522c94cb83af391e4e89018392725bbf2098dd931bc424"
	if got := hex.EncodeToString(key(t, 1).Public()); got != want {
		t.Errorf("the public key of the seed is %s, was %s", got, want)
	}
	if _, err := sealed.NewKey(secret.FromString("short")); err == nil {
		t.Error("a short seed")
	}
	for _, bad := range [][]byte{nil, make([]byte, 31), make([]byte, 33), make([]byte, 32)} {
		if _, err := sealed.Seal(bad, place, secret.FromString("x")); err == nil {
			t.Errorf("a public key of %d zero bytes", len(bad))
		}
	}
}

// Printing a key prints no private bytes.
func TestTOK07_APrintedKeyIsNoSecret(t *testing.T) {
	private, err := hpke.DHKEM(ecdh.X25519()).DeriveKeyPair(bytes.Repeat([]byte{1}, sealed.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	scalar, err := private.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%d", "%s"} {
		out := fmt.Sprintf(verb, struct{ k sealed.Key }{key(t, 1)})
		for _, form := range []string{hex.EncodeToString(scalar[:8]), strings.Trim(fmt.Sprintf("%d", scalar[:8]), "[]"), string(scalar[:8])} {
			if strings.Contains(strings.ReplaceAll(strings.ToLower(out), "0x", ""), form) {
				t.Errorf("%s prints the key", verb)
			}
		}
	}
}
