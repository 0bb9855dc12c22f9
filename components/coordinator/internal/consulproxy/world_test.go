package consulproxy_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
	"cadre.dev/store/storetest"
)

func TestMain(m *testing.M) {
	// The Consul of the next test may be starting when there is no next test.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("cadre.dev/store/storetest.startSpare"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"), goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"))
}

// world is a real Consul with default deny, behind a Consul proxy.
type world struct {
	t      *testing.T
	server storetest.ConsulServer
	issuer *tokens.Issuer
	admin  *consul.Client
	proxy  *consulproxy.Proxy
	ended  func()

	mu     sync.Mutex
	gone   map[string]bool // guarded by mu; Boots without their Slot
	ahead  time.Duration   // guarded by mu; offset of the clock
	closed sync.WaitGroup
}

func newWorld(t *testing.T, limits consulproxy.Limits) *world {
	t.Helper()
	w := &world{t: t, server: storetest.StartConsulACL(t), gone: map[string]bool{}}
	var err error
	if w.issuer, err = tokens.New(w.server.Addr, w.server.ManagementToken, tokens.TTL); err != nil {
		t.Fatal(err)
	}
	if w.admin, err = consul.NewClient(&consul.Config{Address: w.server.Addr, Token: w.server.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	w.proxy = consulproxy.New(consulproxy.Config{
		Consul: w.server.Addr, Datacenter: "dc1", Tokens: w.issuer, Limits: limits, Now: w.now, Log: slog.New(slog.DiscardHandler),
		Holds: func(_, boot string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.gone[boot]
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.proxy.Run(ctx) }()
	w.ended = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the Consul proxy ended: %v", err)
		}
		w.closed.Wait()
	})
	t.Cleanup(w.ended)
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// later moves the Consul proxy's clock.
func (w *world) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
}

// raw is one connection with the caller's name.
func (w *world) raw(ctx context.Context, c consulproxy.Caller) net.Conn {
	near, far := net.Pipe()
	w.closed.Go(func() { w.proxy.Serve(ctx, c, far) })
	w.t.Cleanup(func() { _ = near.Close() })
	return near
}

// member is a Slot in the catalog with its token and its client of the Consul proxy.
type member struct {
	consulproxy.Caller
	w      *world
	token  string
	client *http.Client
	// leave ends its Session.
	leave context.CancelFunc
}

func (w *world) member(groupName, slot string) *member {
	w.t.Helper()
	if _, err := w.admin.Catalog().Register(&consul.CatalogRegistration{Node: slot, Address: "127.50.1.1",
		Service: &consul.AgentService{ID: groupName, Service: groupName}}, nil); err != nil {
		w.t.Fatal(err)
	}
	token, err := w.issuer.Slot(w.t.Context(), tokens.Holder{
		Spec: group.Spec{Name: groupName, Workload: group.Workload{Kind: group.WorkloadPatroni}}, Slot: slot, BootID: "boot-" + slot,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	m := &member{Caller: consulproxy.Caller{Group: groupName, Slot: slot, Boot: "boot-" + slot}, w: w, token: token.Secret}
	m.client, m.leave = w.way(m.Caller, false)
	return m
}

// way returns a client whose connections reach the Consul proxy under the caller's name, with
// HTTP/2 or HTTP/1.1.
func (w *world) way(c consulproxy.Caller, h2 bool) (*http.Client, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var protocols http.Protocols
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	transport := &http.Transport{Protocols: &protocols, MaxIdleConnsPerHost: 64, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			w.closed.Go(func() { w.proxy.Serve(ctx, c, far) })
			return near, nil
		}}
	w.t.Cleanup(cancel)
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, cancel
}

// answer is an answer of the Consul proxy or of Consul.
type answer struct {
	status int
	body   string
	header http.Header
}

// code returns the Consul proxy's code; "": the answer is Consul's.
func (a answer) code() string {
	if code, _, ok := strings.Cut(a.body, ": "); ok && strings.HasPrefix(code, "CONSUL_PROXY_") {
		return code
	}
	return ""
}

func (m *member) ask(method, target, body string, set ...func(*http.Request)) answer {
	m.w.t.Helper()
	out, err := m.try(m.w.t.Context(), m.client, method, target, body, set...)
	if err != nil {
		m.w.t.Fatalf("%s %s: %v", method, target, err)
	}
	return out
}

func (m *member) try(ctx context.Context, client *http.Client, method, target, body string, set ...func(*http.Request)) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://consul"+target, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("X-Consul-Token", m.token)
	for _, change := range set {
		change(req)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(text), resp.Header}, err
}

// session makes a session of the member.
func (m *member) session() string {
	m.w.t.Helper()
	got := m.ask(http.MethodPut, "/v1/session/create", `{"TTL":"60s","LockDelay":"0s"}`)
	id, ok := strings.CutPrefix(strings.TrimSpace(got.body), `{"ID":"`)
	if got.status != http.StatusOK || !ok {
		m.w.t.Fatalf("session: %+v", got)
	}
	return strings.TrimSuffix(id, `"}`)
}
