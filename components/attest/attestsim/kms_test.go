package attestsim

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func public(key []byte) string {
	return hexOf(secp256k1.PrivKeyFromBytes(key).PubKey().SerializeCompressed())
}

func TestKeyDerivationVectors(t *testing.T) {
	upstream := unhex(t, "d6e88992cdeeee35fe70b5db61ab66cdb191fb9b6ec9313757ef162dd7214d5d")
	for path, want := range map[string]string{
		"":                "aa221ae548b5a8f52fcb8687cfd873712f6a1232b2717e5ee3d58ab74f21905b",
		"test":            "133e8ca6e532ead3e38f00347408771da296e9c70e8e3e362f485154e64ef4e8",
		"wallet/ethereum": "abc24a0a6485cfceb30932bcfc9c3b918eab2216d8619c423a0d1017390938ef",
	} {
		if got, err := ratls(upstream, path); err != nil || hexOf(got) != want {
			t.Errorf("path %q: %x, error %v", path, got, err)
		}
	}

	k := &kms{root: secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{9}, 32))}
	appKey, signature, err := k.appKey(bytes.Repeat([]byte{1}, 20))
	if err != nil {
		t.Fatal(err)
	}
	if got := hexOf(appKey); got != "e089ac910f65acabf4007ade4f883c19c68f8b6dffae363b884820573cf95ae9" {
		t.Errorf("app key %s", got)
	}
	if got := public(appKey); got != "02ab703fa1dfba4260a80b11dadef9a2daed24135817074a226d9490cf6c3907c1" {
		t.Errorf("app public key %s", got)
	}
	key, err := ratls(appKey, "demo/path")
	if err != nil {
		t.Fatal(err)
	}
	if got := hexOf(key); got != "9dc498edc8a96cc911f2a1fe7565ef29b8bf0091a38a9dc0251af2c0a31c8c4f" {
		t.Errorf("derived key %s", got)
	}
	if got := public(key); got != "03352f96831213d2ad1be757c4bbc773c67af7c148312bc1e9c69360ad1bcf3ca4" {
		t.Errorf("derived public key %s", got)
	}

	message := append([]byte("dstack-kms-issued:"), bytes.Repeat([]byte{1}, 20)...)
	message = append(message, unhex(t, public(appKey))...)
	recovered, _, err := ecdsa.RecoverCompact(append([]byte{27 + 4 + signature[64]}, signature[:64]...), keccak256(message))
	if err != nil || hexOf(recovered.SerializeCompressed()) != public(bytes.Repeat([]byte{9}, 32)) {
		t.Errorf("the app key is not signed by the KMS: %v", err)
	}
}

func TestMeasurementVectors(t *testing.T) {
	b := func(c byte, n int) []byte { return bytes.Repeat([]byte{c}, n) }
	g := &Guest{}
	g.emit("system-preparing", nil)
	g.emit("app-id", b(1, 20))
	g.emit("compose-hash", b(2, 32))
	g.emit("instance-id", b(3, 20))
	g.emit("boot-mr-done", nil)
	g.emit("mr-kms", b(4, 32))
	g.emit("os-image-hash", b(5, 32))
	g.emit("key-provider", []byte(`{"name":"kms","id":"00"}`))
	g.emit("storage-fs", []byte("zfs"))
	g.emit("system-ready", nil)
	if got := hexOf(g.rtmr3[:]); got != "1cf4bd3b7f05e7219db6cd763a4a6cd267043919698104110f5bca887fcfba044ffa7b28061eb97ef90d630c0ad09ba8" {
		t.Errorf("RTMR3 %s", got)
	}
}
