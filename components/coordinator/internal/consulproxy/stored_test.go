package consulproxy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/consulproxy"
)

// named are tokens whose secret is the name of their owner.
type named struct{}

func (named) Owner(_ context.Context, secret string) (string, error) { return secret, nil }

// Consul takes long to show the keys of a large group, and meanwhile all members of that group
// write. The measurement holds one place at Consul, and the other requests wait without a place.
func TestThreat_DOR05_ARequestThatWaitsForItsGroupTakesNoPlace(t *testing.T) {
	const members = 8
	shown := make(chan struct{})
	show := sync.OnceFunc(func() { close(shown) })
	defer show()
	measuring := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Query().Has("recurse") && strings.HasSuffix(r.URL.Path, "/service/pg/") {
			measuring <- struct{}{}
			<-shown
		}
		_, _ = io.WriteString(w, "true")
	}))
	defer server.Close()
	judged := make(chan struct{}, 1000)
	d := consulproxy.New(consulproxy.Config{
		Consul: server.Listener.Addr().String(), Datacenter: "dc1", Tokens: named{}, Limits: consulproxy.Limits{AllRunning: members, Rate: 1e6, Burst: 1e6},
		Holds: func(string, string) bool { judged <- struct{}{}; return true }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	write := func(group, slot string) string {
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			running.Go(func() { d.Serve(ctx, consulproxy.Caller{Group: group, Slot: slot, Boot: "boot"}, far) })
			return near, nil
		}}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://consul/v1/kv/"+consulproxy.Scope(group)+"x", strings.NewReader("x"))
		if err != nil {
			return err.Error()
		}
		req.Header.Set("X-Consul-Token", slot)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return string(body)
	}
	answers := make(chan string, members)
	for n := range members {
		running.Go(func() { answers <- write("pg", fmt.Sprintf("pg-%d", n)) })
	}
	<-measuring
	for range members {
		<-judged
	}
	for n := range 50 {
		if got := write("web", "web-0"); got != "true" {
			t.Fatalf("write %d of another group: %s", n, got)
		}
	}
	show()
	for range members {
		if got := <-answers; got != "true" {
			t.Errorf("a write that waited for its group: %s", got)
		}
	}
	if n := len(measuring); n > 0 {
		t.Errorf("the group was measured %d times more than once", n)
	}
}
