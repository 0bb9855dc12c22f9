package leak

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

func canary(t *testing.T, n int) []byte {
	t.Helper()
	out := make([]byte, n)
	if _, err := rand.Read(out); err != nil {
		t.Fatal(err)
	}
	out[0], out[n-1] = '"', 0xff
	return out
}

// The scanner finds a canary in every form, anywhere, also across the edges of its chunks.
func TestTOK07_ScannerFindsEveryForm(t *testing.T) {
	value := canary(t, 32)
	s, err := New([]Canary{{Name: "key", Value: value}, {Name: "other", Value: canary(t, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	inside := func(before, after int) []byte {
		return append(append(bytes.Repeat([]byte{7}, before), value...), bytes.Repeat([]byte{9}, after)...)
	}
	asJSON, err := json.Marshal(map[string]string{"a": string(value)})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(asJSON, []byte(`\ufffd`)) {
		t.Fatal("the canary is no hard one for JSON")
	}
	for name, text := range map[string][]byte{
		"raw": value, "hex": []byte(hex.EncodeToString(value)), "upper hex": []byte(strings.ToUpper(hex.EncodeToString(value))), "json": asJSON,
		"url": []byte(url.QueryEscape(string(value))), "%v": fmt.Append(nil, value), "%q": fmt.Appendf(nil, "%q", value), "%x inside": fmt.Appendf(nil, "%x", inside(3, 5)),
		"base64": []byte(base64.StdEncoding.EncodeToString(value)), "base64url": []byte(base64.URLEncoding.EncodeToString(value)),
		"base64 inside": []byte(base64.StdEncoding.EncodeToString(inside(10, 1))), "base64 inside, shifted": []byte(base64.StdEncoding.EncodeToString(inside(11, 2))),
		"base64url inside, shifted twice": []byte(base64.RawURLEncoding.EncodeToString(inside(12, 4))),
	} {
		for _, before := range []int{0, 1, chunk - 5, chunk, 2*chunk - 17} {
			sink := append(append(bytes.Repeat([]byte("."), before), text...), "the end"...)
			hits, err := s.Scan(name, iotest.HalfReader(bytes.NewReader(sink)))
			if err != nil {
				t.Fatal(err)
			}
			if len(hits) == 0 || hits[0].Canary != "key" || hits[0].At < int64(before) || hits[0].At > int64(before+len(text)) {
				t.Errorf("%s after %d bytes: %v", name, before, hits)
			}
			for _, h := range hits {
				if h.Canary != "key" || strings.Contains(h.String(), string(value)) || strings.Contains(h.String(), hex.EncodeToString(value)) {
					t.Errorf("%s: the report is %s", name, h)
				}
			}
		}
	}
}

func TestScannerFindsNothingWhereNothingIs(t *testing.T) {
	s, err := New([]Canary{{Name: "key", Value: canary(t, 16), May: []string{"vault/"}}})
	if err != nil {
		t.Fatal(err)
	}
	noise := canary(t, 3<<20)
	if hits, err := s.Scan("noise", bytes.NewReader(noise)); err != nil || len(hits) != 0 {
		t.Errorf("hits = %v, %v", hits, err)
	}
	if _, err := New([]Canary{{Name: "short", Value: []byte("12345678")}}); err == nil {
		t.Error("a canary that stands everywhere by chance is taken")
	}
}

func TestScannerKnowsWhereACanaryMayBe(t *testing.T) {
	value := canary(t, 16)
	s, err := New([]Canary{{Name: "key", Value: value, May: []string{"vault/"}}})
	if err != nil {
		t.Fatal(err)
	}
	for sink, want := range map[string]int{"vault/raft.db": 0, "log/vault/": 1} {
		if hits, err := s.Scan(sink, bytes.NewReader(value)); err != nil || len(hits) != want {
			t.Errorf("%s: %v, %v", sink, hits, err)
		}
	}
}
