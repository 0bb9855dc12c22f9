package supervise

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestTOK13_NotFoundJustAfterTheIssueIsLag: a server that does not know a token yet is
// asked again, for a bound; then the token counts as not usable and the old one stays.
func TestTOK13_NotFoundJustAfterTheIssueIsLag(t *testing.T) {
	var asked atomic.Int32
	var behind int32 = 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/acl/token/self" || r.Header.Get("X-Consul-Token") != "new" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		if asked.Add(1) <= behind {
			http.Error(w, "ACL not found", http.StatusForbidden)
		}
	}))
	defer server.Close()
	c := NewConsul(Config{HTTPPort: server.Listener.Addr().(*net.TCPAddr).Port})
	if err := c.Knows(t.Context(), "new"); err != nil || asked.Load() != behind+1 {
		t.Errorf("after %d questions: %v", asked.Load(), err)
	}
	behind = 1 << 30
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := c.Knows(ctx, "new"); err == nil {
		t.Error("a token that nobody knows counts as usable")
	}
}
