package tokens_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/tokens"
)

// reading is a Consul whose leader has come to some place of its log: it answers like
// Consul 1.22.
type reading struct {
	own, other bool // tokens that it knows
	// onSelf is what has been read when it is asked consistently.
	onSelf  func(*reading)
	deleted bool
}

func (r *reading) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.Method == http.MethodDelete && strings.HasPrefix(req.URL.Path, "/v1/acl/token/"):
		if !r.own || !r.other || r.deleted {
			http.Error(w, "Cannot find token to delete", http.StatusNotFound)
			return
		}
		r.deleted = true
		_, _ = w.Write([]byte("true"))
	case req.URL.Path == "/v1/acl/token/self" && req.URL.Query().Has("consistent"):
		if r.onSelf != nil {
			r.onSelf(r)
		}
		if !r.own {
			http.Error(w, "token does not exist: ACL not found", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte("{}"))
	default:
		http.Error(w, "not expected: "+req.Method+" "+req.URL.String(), http.StatusTeapot)
	}
}

// TestALeaderThatHasNotReadItsLogRevokesNothing: it says about every token that there
// is none, which is not believed.
func TestALeaderThatHasNotReadItsLogRevokesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		consul  reading
		deleted bool
		err     error
	}{
		"it is there":                    {reading{own: true, other: true}, true, nil},
		"it is gone":                     {reading{own: true}, false, nil},
		"nothing is read":                {reading{}, false, tokens.ErrNotCaughtUp},
		"all is read when asked":         {reading{onSelf: func(r *reading) { r.own, r.other = true, true }}, true, nil},
		"the rest is read when asked":    {reading{own: true, onSelf: func(r *reading) { r.other = true }}, true, nil},
		"it is read, and there was none": {reading{onSelf: func(r *reading) { r.own = true }}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(&c.consul)
			t.Cleanup(server.Close)
			issuer, err := tokens.New(strings.TrimPrefix(server.URL, "http://"), "management", tokens.TTL)
			if err != nil {
				t.Fatal(err)
			}
			if err := issuer.Revoke(t.Context(), "7c1e2b34-0000-4000-8000-000000000001"); !errors.Is(err, c.err) || (c.err == nil && err != nil) {
				t.Errorf("revoke: %v, want %v", err, c.err)
			}
			if c.consul.deleted != c.deleted {
				t.Errorf("deleted: %v, want %v", c.consul.deleted, c.deleted)
			}
		})
	}
}
