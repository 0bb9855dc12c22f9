package consulproxy

import (
	"net/url"
	"testing"
	"time"
)

// FuzzATargetIsCarriedAsItWas: the coordinator authorizes the workload's original path. An encoded
// slash stays encoded, and each hop decodes at most once.
func FuzzATargetIsCarriedAsItWas(f *testing.F) {
	for _, seed := range []string{"/v1/kv/service%2Fpg%2Fa?raw", "/v1/kv/a%252Fb", "/v1/kv/service/pg/%C3%A9?index=7", "/v1/kv/service/pg/a b", "/v1/kv/..%2f?recurse"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		at, err := url.ParseRequestURI(target)
		if err != nil || at.Host != "" || at.Opaque != "" || at.Path == "" || at.Path[0] != '/' {
			return
		}
		sent := (&call{method: "GET", url: *at, began: time.Now()}).request(t.Context()).URL.RequestURI()
		got, err := url.ParseRequestURI(sent)
		if err != nil {
			t.Fatalf("%q is sent as %q: %v", target, sent, err)
		}
		if got.Path != at.Path || got.EscapedPath() != at.EscapedPath() {
			t.Errorf("%q is sent as %q: %q, then %q", target, sent, at.EscapedPath(), got.EscapedPath())
		}
	})
}
