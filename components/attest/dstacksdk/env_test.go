package dstacksdk

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"
)

// private is the recipient's key of the vector.
var private = bytes.Repeat([]byte{0x11}, 32)

func recipient(t *testing.T) []byte {
	t.Helper()
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key.PublicKey().Bytes()
}

// open is the guest's half: eph_pub(32) || iv(12) || ciphertext || tag(16).
func open(t *testing.T, sealed string) (plain string) {
	t.Helper()
	raw, err := hex.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	sender, err := ecdh.X25519().NewPublicKey(raw[:32])
	if err != nil {
		t.Fatal(err)
	}
	shared, err := key.ECDH(sender)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(shared)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	text, err := gcm.Open(nil, raw[32:44], raw[44:], nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withRandom makes the process's randomness known for one test.
func withRandom(t *testing.T, r io.Reader) {
	t.Helper()
	real := rand.Reader
	rand.Reader = r
	t.Cleanup(func() { rand.Reader = real })
}

// TestSealEnvVector: ephemeral key 32 x 22, IV 12 x 33, as guests open it.
func TestSealEnvVector(t *testing.T) {
	public := recipient(t)
	if got := hex.EncodeToString(public); got != "7b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13" {
		t.Fatalf("recipient %s", got)
	}
	withRandom(t, bytes.NewReader(append(bytes.Repeat([]byte{0x22}, 32), bytes.Repeat([]byte{0x33}, 12)...)))
	got, err := SealEnv(public, map[string]string{"B": "x y", "A": "1"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f2033333333333333333333333313c2a34971c12ae4f37f3e84eda2c29c25586721baa2462c3647b40f36bd4ac244c9eb1d63b673aa2dba9fe1031eabb91bfa859f6289c20802a862d24edd108d8b8b9e880d75a1b4b460d8"
	if got != want {
		t.Errorf("sealed %s, want %s", got, want)
	}
}

func TestSealEnvIsFreshEachTime(t *testing.T) {
	public := recipient(t)
	env := map[string]string{"HTML": "a<b>&c", "EMPTY": "", "WORD": "Grüße"}
	first, err := SealEnv(public, env)
	if err != nil {
		t.Fatal(err)
	}
	second, err := SealEnv(public, env)
	if err != nil {
		t.Fatal(err)
	}
	if first == second || first[:64] == second[:64] {
		t.Error("two seals share their key")
	}
	var got struct{ Env []dstack.EnvVar }
	if err := json.Unmarshal([]byte(open(t, second)), &got); err != nil {
		t.Fatal(err)
	}
	back := map[string]string{}
	for _, v := range got.Env {
		back[v.Key] = v.Value
	}
	if !maps.Equal(back, env) {
		t.Errorf("opened %v, want %v", back, env)
	}
}

func TestCheckEnvRejectsValuesThatAGuestDrops(t *testing.T) {
	key := bytes.Repeat([]byte{9}, 32)
	many := map[string]string{}
	for i := range maxEnvItems + 1 {
		many["A"+strings.Repeat("x", i%100)+string(rune('A'+i%26))+hex.EncodeToString([]byte{byte(i >> 8), byte(i)})] = ""
	}
	for name, env := range map[string]map[string]string{
		"digit first": {"1A": ""},
		"dash":        {"A-B": ""},
		"long name":   {strings.Repeat("A", maxEnvName+1): ""},
		"long value":  {"A": strings.Repeat("x", maxEnvValue+1)},
		"not UTF-8":   {"A": "\xff"},
		"many":        many,
	} {
		if _, err := SealEnv(key, env); !errors.Is(err, ErrEnv) {
			t.Errorf("%s: error %v, want ErrEnv", name, err)
		}
	}
	for _, bad := range [][]byte{nil, key[:31], make([]byte, 32)} {
		if _, err := SealEnv(bad, map[string]string{"A": "1"}); err == nil {
			t.Errorf("sealed for key %x", bad)
		}
	}
}

// TestTheSDKSealsUncheckedValues are the two inputs that SealEnv keeps from it.
func TestTheSDKSealsUncheckedValues(t *testing.T) {
	key := hex.EncodeToString(recipient(t))
	sealed, err := dstack.EncryptEnvVars(nil, key)
	if err != nil {
		t.Fatal(err)
	}
	if got := open(t, sealed); got != `{"env":null}` {
		t.Errorf("the SDK seals no values as %s", got)
	}
	if sealed, err = SealEnv(recipient(t), nil); err != nil || open(t, sealed) != `{"env":[]}` {
		t.Errorf("sealed no values: %v", err)
	}
	sealed, err = dstack.EncryptEnvVars([]dstack.EnvVar{{Key: "A", Value: "\xff"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	if got := open(t, sealed); got != `{"env":[{"key":"A","value":"\ufffd"}]}` {
		t.Errorf("the SDK seals a byte that is no UTF-8 as %s", got)
	}
}
