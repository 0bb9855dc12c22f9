package identity

import (
	"errors"
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	want := ID{"prod.example", "db", "db-0"}
	if got, err := ParseID("spiffe://prod.example/db/db-0"); err != nil || got != want {
		t.Errorf("got %v, error %v, want %v", got, err, want)
	}
	for _, bad := range []string{
		"", "spiffe://", "spiffe://c/g", "spiffe://c/g/s/x", "spiffe://c/g/s/", "spiffe:///g/s", "spiffe://c//s",
		"SPIFFE://c/g/s", "https://c/g/s", "spiffe://C/g/s", "spiffe://c/G/s", "spiffe://c/g/s%2f", "spiffe://c/g/..",
		"spiffe://u@c/g/s", "spiffe://c:443/g/s", "spiffe://c/g/s?q", "spiffe://c/g/s#f", "spiffe://c./g/s",
		"spiffe://c..d/g/s", "spiffe://-c/g/s", "spiffe://c/g-/s", "spiffe://c/g/s s", "spiffe://c/g/s\x00",
		"spiffe://c/g/ſ", "spiffe://c/g/" + strings.Repeat("s", MaxLabel+1), "spiffe://" + strings.Repeat("c", 5000) + "/g/s",
	} {
		if got, err := ParseID(bad); !errors.Is(err, ErrInvalidID) {
			t.Errorf("%.60q: got %v, error %v, want %v", bad, got, err, ErrInvalidID)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("spiffe://prod.example/db/db-0")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err == nil && id.String() != s {
			t.Errorf("%q parses to %q", s, id)
		}
	})
}
