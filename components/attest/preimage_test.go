package attest

import (
	"bytes"
	"strings"
	"testing"
)

func TestConfigIDs(t *testing.T) {
	c := ConfigID{ComposeHash: bytes.Repeat([]byte{2}, 32), AppID: bytes.Repeat([]byte{1}, 20), KeyProvider: "kms", KeyProviderID: "3059"}
	if got, want := c.V1(), "01"+strings.Repeat("02", 32)+strings.Repeat("00", 15); got != want {
		t.Errorf("V1 = %s, want %s", got, want)
	}
	got, err := c.V2()
	if want := "02e6b699c5a73baf04f329c15c7b5d5a6f4fffb388ae6ed57e3df86af008c89ecc" + strings.Repeat("00", 15); err != nil || got != want {
		t.Errorf("V2 = %s, %v, want %s", got, err, want)
	}
	for _, bad := range []ConfigID{{KeyProvider: "usb"}, {KeyProvider: "kms", KeyProviderID: "xyz"}} {
		if _, err := bad.V2(); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
