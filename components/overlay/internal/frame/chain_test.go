package frame

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func TestChainRoundTrips(t *testing.T) {
	in := Chain{[]byte("leaf"), []byte("root")}
	got, err := ReadChain(bytes.NewReader(in.Append(nil)))
	if err != nil || !slices.EqualFunc(got, in, bytes.Equal) {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestInvalidChains_OVL16(t *testing.T) {
	for name, b := range map[string][]byte{
		"none":                  {0},
		"too many":              Chain{{1}, {1}, {1}, {1}}.Append(nil),
		"empty certificate":     Chain{{}}.Append(nil),
		"too large certificate": Chain{make([]byte, MaxCertificate+1)}.Append(nil),
	} {
		if _, err := ReadChain(bytes.NewReader(b)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
		}
	}
	whole := Chain{[]byte("leaf")}.Append(nil)
	for n := range whole {
		if _, err := ReadChain(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("a chain that ends after %d bytes was read", n)
		}
	}
}

func FuzzChain(f *testing.F) {
	f.Add(Chain{[]byte("leaf"), []byte("root")}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadChain(bytes.NewReader(b))
		if err == nil && !bytes.HasPrefix(b, c.Append(nil)) {
			t.Errorf("%x reads as %x", b, c)
		}
	})
}
