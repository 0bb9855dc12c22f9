package tokens_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/tokens"
)

// reading is a Consul whose leader is still reading its log: it answers like Consul 1.22.
type reading struct {
	own, other bool // known tokens
	// onRead changes a consistent read, in which own is known.
	onRead  func(*reading)
	deleted bool
}

func (r *reading) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case !strings.HasPrefix(req.URL.Path, "/v1/acl/token/"):
		http.Error(w, "not expected: "+req.URL.String(), http.StatusTeapot)
	case req.Method == http.MethodDelete:
		if !r.own || !r.other || r.deleted {
			http.Error(w, "Cannot find token to delete", http.StatusNotFound)
			return
		}
		r.deleted = true
		_, _ = w.Write([]byte("true"))
	case req.Method == http.MethodGet && req.URL.Query().Has("consistent"):
		if !r.own {
			http.Error(w, "rpc error making call: ACL not found", http.StatusForbidden)
			return
		}
		if r.onRead != nil {
			r.onRead(r)
		}
		if !r.other || r.deleted {
			http.Error(w, "rpc error making call: token does not exist: ACL not found", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte("{}"))
	default:
		http.Error(w, "not expected: "+req.Method+" "+req.URL.String(), http.StatusTeapot)
	}
}

// TestALeaderThatHasNotReadItsLogRevokesNothing: such a leader answers that no token exists, and
// this answer is not trusted.
func TestALeaderThatHasNotReadItsLogRevokesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		consul  reading
		deleted bool
		wrong   bool
	}{
		"it is there":                 {reading{own: true, other: true}, true, false},
		"it is gone":                  {reading{own: true}, false, false},
		"nothing is read":             {reading{}, false, true},
		"the rest is read when asked": {reading{own: true, onRead: func(r *reading) { r.other = true }}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(&c.consul)
			t.Cleanup(server.Close)
			issuer, err := tokens.New(strings.TrimPrefix(server.URL, "http://"), "management", tokens.TTL)
			if err != nil {
				t.Fatal(err)
			}
			if err := issuer.Revoke(t.Context(), "7c1e2b34-0000-4000-8000-000000000001"); (err != nil) != c.wrong {
				t.Errorf("revoke: %v, want an error: %v", err, c.wrong)
			}
			if c.consul.deleted != c.deleted {
				t.Errorf("deleted: %v, want %v", c.consul.deleted, c.deleted)
			}
		})
	}
}
