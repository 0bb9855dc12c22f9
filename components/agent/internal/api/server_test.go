package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/group"
	"cadre.dev/raced/synctest"
)

// fakeLifecycle has one open hook, "flush" with token "t0k".
type fakeLifecycle struct {
	status latestvalue.Value[lifecycle.Status]
	did    []string
}

func (f *fakeLifecycle) Status() (lifecycle.Status, uint64) { return f.status.Get() }

func (f *fakeLifecycle) WaitStatus(ctx context.Context, index uint64) (lifecycle.Status, uint64) {
	s, now, _ := f.status.Wait(ctx, index)
	return s, now
}

func (f *fakeLifecycle) Complete(hook, token string, result group.HookResult) (bool, error) {
	return f.take(hook, token, string(result))
}

func (f *fakeLifecycle) Heartbeat(hook, token string) (bool, error) {
	return f.take(hook, token, "heartbeat")
}

func (f *fakeLifecycle) take(hook, token, what string) (bool, error) {
	if token == "" {
		return false, lifecycle.ErrNoToken
	}
	if hook != "flush" || token != "t0k" {
		return false, nil
	}
	f.did = append(f.did, what)
	return true, nil
}

func newTestServer(admitted bool) (*Server, *fakeLifecycle) {
	life := &fakeLifecycle{}
	life.status.Set(lifecycle.Status{State: lifecycle.InService})
	return New(Config{
		Address:  &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070},
		Instance: func() (Instance, bool) { return Instance{Slot: "web-0"}, admitted },
		Backends: ownedBackends(), Checks: answeredChecks(),
		Lifecycle: func() Lifecycle {
			if admitted {
				return life
			}
			return nil
		},
		NotReady: func() string {
			if admitted {
				return ""
			}
			return "not admitted yet"
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("cadre_agent_x 1\n")) }),
		Log:     slog.New(slog.DiscardHandler),
	}), life
}

func TestAnswers(t *testing.T) {
	const complete, beat = "/v1/lifecycle/flush/complete", "/v1/lifecycle/flush/heartbeat"
	for name, tc := range map[string]struct {
		method, path, body string
		fresh              bool // not admitted yet
		header             string
		want               int
		says               string
	}{
		"instance":                   {method: "GET", path: "/v1/instance", want: 200, says: `"slot":"web-0"`},
		"instance too early":         {method: "GET", path: "/v1/instance", fresh: true, want: 503, says: "NOT_ADMITTED"},
		"lifecycle":                  {method: "GET", path: "/v1/lifecycle", want: 200, says: `"index":1,"state":"IN_SERVICE"`},
		"lifecycle too early":        {method: "GET", path: "/v1/lifecycle", fresh: true, want: 503, says: "NOT_ADMITTED"},
		"long poll that is answered": {method: "GET", path: "/v1/lifecycle?wait=5m&index=0", want: 200, says: `"index":1`},
		"long poll that ends":        {method: "GET", path: "/v1/lifecycle?wait=10ms&index=1", want: 200, says: `"index":1`},
		"wait is no duration":        {method: "GET", path: "/v1/lifecycle?wait=30", want: 400, says: "QUERY_INVALID"},
		"wait is too long":           {method: "GET", path: "/v1/lifecycle?wait=1h", want: 400, says: "5m0s"},
		"index is no number":         {method: "GET", path: "/v1/lifecycle?index=x", want: 400, says: "index"},
		"complete":                   {method: "POST", path: complete, body: `{"result":"CONTINUE","token":"t0k"}`, want: 200, says: `"applied":true`},
		"complete without token":     {method: "POST", path: complete, body: `{"result":"ABANDON"}`, want: 400, says: "TOKEN_MISSING"},
		"complete an old run":        {method: "POST", path: complete, body: `{"result":"CONTINUE","token":"old"}`, want: 200, says: `"applied":false`},
		"complete another hook":      {method: "POST", path: "/v1/lifecycle/x/complete", body: `{"result":"CONTINUE","token":"t0k"}`, want: 200, says: `"applied":false`},
		"complete too early":         {method: "POST", path: complete, body: `{"result":"CONTINUE"}`, fresh: true, want: 503, says: "NOT_ADMITTED"},
		"unknown result":             {method: "POST", path: complete, body: `{"result":"continue"}`, want: 400, says: "RESULT_INVALID"},
		"no result":                  {method: "POST", path: complete, want: 400, says: "RESULT_INVALID"},
		"unknown field":              {method: "POST", path: complete, body: `{"result":"CONTINUE","force":true}`, want: 400, says: "BODY_INVALID"},
		"two values":                 {method: "POST", path: complete, body: `{"result":"CONTINUE"}{}`, want: 400, says: "BODY_INVALID"},
		"not JSON":                   {method: "POST", path: complete, body: `result=CONTINUE`, want: 400, says: "BODY_INVALID"},
		"large body":                 {method: "POST", path: complete, body: `{"token":"` + strings.Repeat("x", bodyLimit) + `"}`, want: 413, says: "REQUEST_TOO_LARGE"},
		"heartbeat":                  {method: "POST", path: beat, body: `{"token":"t0k"}`, want: 200, says: `"applied":true`},
		"heartbeat without token":    {method: "POST", path: beat, want: 400, says: "TOKEN_MISSING"},
		"heartbeat of another hook":  {method: "POST", path: "/v1/lifecycle/x/heartbeat", body: `{"token":"t0k"}`, want: 200, says: `"applied":false`},
		"healthz before admission":   {method: "GET", path: "/healthz", fresh: true, want: 200, says: "ok"},
		"readyz":                     {method: "GET", path: "/readyz", want: 200, says: "ready"},
		"readyz before admission":    {method: "GET", path: "/readyz", fresh: true, want: 503, says: "not admitted yet"},
		"metrics":                    {method: "GET", path: "/metrics", want: 200, says: "cadre_agent_x 1"},
		"a web page asks":            {method: "GET", path: "/v1/instance", header: "http://evil.example", want: 403, says: "ORIGIN_FORBIDDEN"},
		"unknown route":              {method: "GET", path: "/v2", want: 404, says: "ROUTE_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestServer(!tc.fresh)
			req := httptest.NewRequest(tc.method, "http://127.0.0.1:7070"+tc.path, strings.NewReader(tc.body))
			if tc.header != "" {
				req.Header.Set("Origin", tc.header)
			}
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, req)
			if rec.Code != tc.want || !strings.Contains(rec.Body.String(), tc.says) {
				t.Errorf("%s %s = %d %s, want %d with %q", tc.method, tc.path, rec.Code, rec.Body, tc.want, tc.says)
			}
			if rec.Code >= 400 {
				var e errorAnswer
				if err := json.Unmarshal(rec.Body.Bytes(), &e); err != nil || e.Code == "" || e.Message == "" {
					t.Errorf("refusal %s has no code and message: %v", rec.Body, err)
				}
			}
		})
	}
}

// TestWebPagesAreRefused: a page that sends its own origin is rejected, and so is a page whose name
// was made to resolve to loopback (DNS rebinding).
func TestWebPagesAreRefused(t *testing.T) {
	ask := func(host string, origin ...string) (code string, did int) {
		s, life := newTestServer(true)
		req := httptest.NewRequest(http.MethodPost, "/v1/lifecycle/flush/complete", strings.NewReader(`{"result":"ABANDON","token":"t0k"}`))
		req.Host = host
		if len(origin) > 0 {
			req.Header["Origin"] = origin
		}
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, req)
		var e errorAnswer
		_ = json.Unmarshal(rec.Body.Bytes(), &e)
		return e.Code, len(life.did)
	}
	for _, host := range []string{"127.0.0.1:7070", "localhost:7070", "LocalHost:7070", "[::1]:7070"} {
		if code, did := ask(host); code != "" || did != 1 {
			t.Errorf("host %q is refused with %s", host, code)
		}
	}
	for _, host := range []string{"", "127.0.0.1", "localhost", "localhost.:7070", "127.0.0.1:80", "evil.example:7070", "127.0.0.1.evil.example:7070", "0.0.0.0:7070", "127.0.0.2:7070", "[::ffff:127.0.0.1]:7070", "127.1:7070"} {
		if code, did := ask(host); code != "HOST_FORBIDDEN" || did != 0 {
			t.Errorf("host %q: code %q, %d calls", host, code, did)
		}
	}
	for _, origin := range [][]string{{"http://evil.example"}, {"null"}, {""}, {"http://localhost:7071"}, {"https://localhost:7070"}, {"http://127.0.0.1:7070.evil.example"}, {"http://localhost:7070", "http://evil.example"}} {
		if code, did := ask("localhost:7070", origin...); code != "ORIGIN_FORBIDDEN" || did != 0 {
			t.Errorf("origin %q: code %q, %d calls", origin, code, did)
		}
	}
}

func TestLongPollWakes(t *testing.T) {
	s, life := newTestServer(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Host = "127.0.0.1:7070" // the test server has another port
		s.Handler().ServeHTTP(w, req)
	}))
	defer server.Close()
	type answer struct {
		body lifecycleAnswer
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		var a answer
		res, err := http.Get(server.URL + "/v1/lifecycle?wait=1m&index=1")
		if err == nil {
			a.err = json.NewDecoder(res.Body).Decode(&a.body)
			_ = res.Body.Close()
		} else {
			a.err = err
		}
		got <- a
	}()
	life.status.Set(lifecycle.Status{State: lifecycle.Draining})
	select {
	case a := <-got:
		if a.err != nil || a.body.State != lifecycle.Draining || a.body.Index != 2 {
			t.Errorf("answer = %+v, %v; want DRAINING at index 2", a.body, a.err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the long poll did not wake")
	}
}

func TestListenRefusesOtherAddresses(t *testing.T) {
	if l, err := Listen(t.Context(), &net.ListenConfig{}, "0.0.0.0:0"); err == nil {
		_ = l.Close()
		t.Error("listen on 0.0.0.0 succeeded, want a refusal")
	}
}

// TestRoutesAreDocumented keeps docs/reference/openapi-agent.yaml and the routes equal.
func TestRoutesAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/reference/openapi-agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	path := ""
	inPaths := false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "paths:":
			inPaths = true
		case inPaths && line != "" && !strings.HasPrefix(line, " "):
			inPaths = false
		case inPaths && strings.HasPrefix(line, "  /"):
			path = strings.TrimSuffix(strings.TrimSpace(line), ":")
		case inPaths && (line == "    get:" || line == "    post:" || line == "    put:"):
			documented[strings.ToUpper(strings.TrimSuffix(strings.TrimSpace(line), ":"))+" "+path] = true
		}
	}
	for _, r := range routes {
		if !documented[r.method+" "+r.path] {
			t.Errorf("%s %s is not in docs/reference/openapi-agent.yaml", r.method, r.path)
		}
		delete(documented, r.method+" "+r.path)
	}
	for extra := range documented {
		t.Errorf("docs/reference/openapi-agent.yaml has %s, which does not exist", extra)
	}
}

// TestCodesAreDocumented compares the Error enum of docs/reference/openapi-agent.yaml with the codes of the
// handlers' answers. A code is a literal of capitals only, or the code of another answer.
func TestCodesAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/reference/openapi-agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(data), "\n    Error:\n")
	enum, _, closed := strings.Cut(after, "\n        message:")
	if !found || !closed {
		t.Fatal("docs/reference/openapi-agent.yaml has no schema Error with code and message")
	}
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^ +- (\w+)$`).FindAllStringSubmatch(enum, -1) {
		documented = append(documented, m[1])
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`"([A-Z]+(?:_[A-Z]+)+)"|\{"code":"([A-Z_]+)"`)
	answered := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range code.FindAllStringSubmatch(string(text), -1) {
			answered[m[1]+m[2]] = true
		}
	}
	if want := slices.Sorted(maps.Keys(answered)); len(want) == 0 || !slices.Equal(documented, want) {
		t.Errorf("docs/reference/openapi-agent.yaml has the codes\n%q, the handlers answer\n%q", documented, want)
	}
}

// pipes is a listener of connections in memory.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.ended) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestINP04_SlowClientsAreCutOff: the server closes connections that send or read too slowly, or
// not at all.
func TestINP04_SlowClientsAreCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		send   string
		within time.Duration
	}{
		"nothing":    {"", 6 * time.Second},
		"half head":  {"GET /v1/instance HTTP/1.1\r\nHost: localhost:7070\r\nX-", 6 * time.Second},
		"half body":  {"POST /v1/lifecycle/flush/complete HTTP/1.1\r\nHost: localhost:7070\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{", 15 * time.Second},
		"no reading": {"GET /v1/instance HTTP/1.1\r\nHost: localhost:7070\r\n\r\n", maxWait + 20*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newTestServer(true)
				ctx, cancel := context.WithCancel(t.Context())
				l, done := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}, make(chan error, 1)
				go func() { done <- s.Run(ctx, l) }()
				near, far := net.Pipe()
				watched := &watchedConn{Conn: far, closed: make(chan struct{})}
				l.conns <- watched
				go func() { _, _ = near.Write([]byte(c.send)) }()
				if name != "no reading" {
					go func() { _, _ = io.Copy(io.Discard, near) }()
				}
				select {
				case <-watched.closed:
				case <-time.After(c.within):
					t.Errorf("still served after %v", c.within)
				}
				cancel()
				_ = near.Close()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type watchedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *watchedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// ownedBackends has one backend, "queue".
func ownedBackends() *selfreport.Registry {
	r := selfreport.New()
	r.Set(map[string]time.Duration{"queue": 30 * time.Second})
	return r
}

func TestACheckOfTheWorkload(t *testing.T) {
	s, _ := newTestServer(true)
	for _, c := range []struct {
		name, body string
		status     int
		text       string
	}{
		{"alive", `{"status":"warning","output":"slow"}`, 200, `{"ttl_seconds":20}`},
		{"alive", `{"status":"fine"}`, 400, "status:"},
		{"alive", `{"status":"passing","tags":["master"]}`, 400, "tags"},
		{"queue", `{"status":"passing"}`, 404, "CHECK_UNKNOWN"},
	} {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPut, "http://127.0.0.1:7070/v1/checks/"+c.name, strings.NewReader(c.body))
		s.Handler().ServeHTTP(rec, req)
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.text) {
			t.Errorf("PUT %s %.60s: %d %s", c.name, c.body, rec.Code, rec.Body)
		}
	}
	if got := s.cfg.Checks.States(); got[0].Health != "healthy" || got[0].Output != "slow" {
		t.Errorf("a rejected report counts: %+v", got)
	}
}

// answeredChecks has one check, "alive".
func answeredChecks() *selfreport.Registry {
	r := selfreport.New()
	r.Set(map[string]time.Duration{"alive": 20 * time.Second})
	return r
}

func TestABackendOfTheWorkload(t *testing.T) {
	s, _ := newTestServer(true)
	for _, c := range []struct {
		name, body string
		status     int
		text       string
	}{
		{"queue", `{"status":"passing","tags":["master"]}`, 200, `{"ttl_seconds":30}`},
		{"queue", `{"status":"fine"}`, 400, "status:"},
		{"queue", `{"status":"passing","role":"x"}`, 400, "role"},
		{"queue", `{"status":"passing","output":"` + strings.Repeat("x", bodyLimit) + `"}`, 413, "REQUEST_TOO_LARGE"},
		{"web", `{"status":"passing"}`, 404, "BACKEND_UNKNOWN"},
	} {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPut, "http://127.0.0.1:7070/v1/backends/"+c.name, strings.NewReader(c.body))
		s.Handler().ServeHTTP(rec, req)
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.text) {
			t.Errorf("PUT %s %.60s: %d %s", c.name, c.body, rec.Code, rec.Body)
		}
	}
	if got := s.cfg.Backends.States(); got[0].Health != "healthy" || got[0].Tags[0] != "master" {
		t.Errorf("a rejected report counts: %+v", got)
	}
}
