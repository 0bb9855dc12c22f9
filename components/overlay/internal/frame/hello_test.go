package frame

import (
	"bytes"
	"errors"
	"testing"
)

func TestInvalidHellos_OVL16(t *testing.T) {
	for _, b := range []string{"CDR\x01", "CDQ\x00", "CDQ\x02", "GET "} {
		if err := ReadHello(bytes.NewReader([]byte(b))); !errors.Is(err, ErrInvalid) {
			t.Errorf("hello %q: got %v, want %v", b, err, ErrInvalid)
		}
	}
	if err := ReadHello(bytes.NewReader([]byte("CD"))); err == nil {
		t.Error("a hello that ends early was read")
	}
}

func FuzzHello(f *testing.F) {
	f.Add(AppendHello(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := ReadHello(bytes.NewReader(b)); (err == nil) != bytes.HasPrefix(b, AppendHello(nil)) {
			t.Errorf("hello %x: %v", b, err)
		}
	})
}
