package consulproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// TestDOR07_ACoordinatorDiesUnderBlockingQueries: 200 at once. Each query continues at the next
// coordinator with its index and the rest of its wait, and gets one answer.
func TestDOR07_ACoordinatorDiesUnderBlockingQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.open()
		const queries = 200
		type answer struct {
			status int
			index  string
			at     time.Time
		}
		answers := make(chan answer, 2*queries)
		var all sync.WaitGroup
		for range queries {
			all.Go(func() {
				status, _, index := w.ask("GET", "/v1/kv/service/db?recurse&index=7&wait=60s", nil)
				answers <- answer{status, index, time.Now()}
			})
		}
		time.Sleep(20 * time.Second)
		first := w.inUse()
		first.die()
		time.Sleep(time.Second)
		second := w.inUse()
		if got, _ := second.requests(); len(got) != queries {
			t.Fatalf("the next coordinator has %d of %d queries within a second", len(got), queries)
		}
		got, at := second.requests()
		for i, r := range got {
			if q := r.URL.RawQuery; q != "recurse&index=7&wait=40s" || at[i].Sub(at[0]) > time.Second {
				t.Fatalf("query %d is asked as %q after %v, want its index and the rest of its wait", i, q, at[i].Sub(at[0]))
			}
		}
		time.Sleep(10 * time.Second)
		changed := time.Now()
		w.set(8)
		all.Wait()
		close(answers)
		n := 0
		for a := range answers {
			n++
			if a.status != 200 || a.index != "8" || a.at.Sub(changed) > time.Second {
				t.Errorf("answer %+v, want index 8 when it came", a)
			}
		}
		if n != queries {
			t.Errorf("%d answers to %d queries", n, queries)
		}
		if got, _ := first.requests(); len(got) != queries {
			t.Errorf("the first coordinator was asked %d times, want %d", len(got), queries)
		}
	})
}

func TestDOR07_ASilentCoordinatorIsLeftWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.open()
		var status int
		var index string
		var query sync.WaitGroup
		query.Go(func() { status, _, index = w.ask("GET", "/v1/kv/x?index=7&wait=300s", nil) })
		time.Sleep(time.Minute)
		first := w.inUse()
		first.hush()
		hushed := time.Now()
		time.Sleep(time.Second)
		second := w.inUse()
		if second == first {
			t.Fatal("the silent coordinator is still in use after a second")
		}
		if _, at := second.requests(); len(at) != 1 || at[0].Sub(hushed) > time.Second {
			t.Fatalf("the query is at the next one %v after the silence began", at)
		}
		w.set(8)
		query.Wait()
		if status != 200 || index != "8" {
			t.Errorf("got %d with index %s", status, index)
		}
	})
}

// TestAnIdleConnectionCostsNothing: without open requests nothing is sent, and a
// coordinator that is silent meanwhile is found out by the next request.
func TestAnIdleConnectionCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.open()
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 200 {
			t.Fatalf("got %d %s", status, text)
		}
		u, _ := w.proxy.current.Get()
		heard := u.conn.at.Load()
		time.Sleep(idleFor / 2)
		if u.conn.at.Load() != heard {
			t.Error("the connection was used while no request was open")
		}
		first := w.inUse()
		first.hush()
		began := time.Now()
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 200 || strings.HasPrefix(text, first.id.Slot) || time.Since(began) > time.Second {
			t.Errorf("got %d %q after %v", status, text, time.Since(began))
		}
		time.Sleep(2 * idleFor)
		synctest.Wait()
		if u, _ := w.proxy.current.Get(); u != nil {
			t.Error("the connection is kept without requests")
		}
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 200 {
			t.Errorf("after that: %d %s", status, text)
		}
	})
}

// TestCoordinatorsComeBack: without coordinators, requests wait for a bounded time; they continue
// with the first coordinator that returns.
func TestCoordinatorsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.open()
		for _, s := range w.servers {
			s.die()
		}
		began := time.Now()
		status, text, _ := w.ask("GET", "/v1/kv/x", nil)
		if status != 500 || !strings.Contains(text, "CONSUL_PROXY_NO_COORDINATOR: No cluster leader") || time.Since(began) != waitFor {
			t.Errorf("without any: %d %q after %v", status, text, time.Since(began))
		}
		back := w.servers[2]
		time.AfterFunc(time.Second, back.live)
		if status, text, _ := w.ask("PUT", "/v1/kv/x", strings.NewReader("value")); status != 200 || text != back.id.Slot+" PUT /v1/kv/x value" {
			t.Errorf("one is back in time: %d %q", status, text)
		}
		w.servers[0].live()
		w.servers[1].live()
		time.Sleep(time.Hour)
		if status, _, _ := w.ask("GET", "/v1/kv/x", nil); status != 200 {
			t.Errorf("all are back: %d", status)
		}
	})
}

// TestDOR07_AWriteIsSentOnce: a request that may have had its effect is not repeated to another
// coordinator; a request that certainly had none is.
func TestDOR07_AWriteIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.open()
		w.ask("GET", "/v1/kv/x", nil)
		first := w.inUse()
		first.handle = func(_ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.ReadAll(r.Body)
			first.die()
			return true
		}
		status, text, _ := w.ask("PUT", "/v1/kv/lock?acquire=0d", strings.NewReader("me"))
		if status != 500 || !strings.HasPrefix(text, "CONSUL_PROXY_UNSURE: ") {
			t.Errorf("got %d %q", status, text)
		}
		time.Sleep(time.Minute)
		for _, s := range w.servers {
			got, _ := s.requests()
			for _, r := range got {
				if s != first && r.Method == "PUT" {
					t.Errorf("%s was asked for the lock as well", s.id.Slot)
				}
			}
		}
		// The connection in use is dead without notice: no request is written on it.
		w.ask("GET", "/v1/kv/x", nil)
		second := w.inUse()
		first.live()
		first.handle = nil
		u, _ := w.proxy.current.Get()
		_ = u.h2.Close()
		if status, text, _ := w.ask("PUT", "/v1/kv/lock?acquire=0d", strings.NewReader("me")); status != 200 || !strings.HasPrefix(text, first.id.Slot) || !strings.HasSuffix(text, " me") {
			t.Errorf("on a connection that takes no request: %d %q, want it at the next one with its body", status, text)
		}
		if got, _ := second.requests(); len(got) != 1 {
			t.Errorf("%s was asked %d times, want for the read alone", second.id.Slot, len(got))
		}
		// A renewal may be repeated.
		first.handle = func(http.ResponseWriter, *http.Request) bool { first.die(); return true }
		if status, text, _ := w.ask("PUT", "/v1/session/renew/0d", nil); status != 200 || !strings.HasPrefix(text, second.id.Slot) {
			t.Errorf("a renewal: %d %q", status, text)
		}
	})
}

// TestDOR07_HalfAnAnswerIsNotPassedOn: the client gets a small answer only when it is complete. It
// detects a truncated large answer by the missing end.
func TestDOR07_HalfAnAnswerIsNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.open()
		w.ask("GET", "/v1/kv/x", nil)
		first := w.inUse()
		size := 1000
		first.handle = func(rw http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(rw, strings.Repeat("x", size))
			_ = http.NewResponseController(rw).Flush()
			time.Sleep(10 * time.Millisecond)
			first.cut()
			return true
		}
		status, text, _ := w.ask("GET", "/v1/kv/x", nil)
		if status != 200 || strings.HasPrefix(text, "x") {
			t.Errorf("got %d and %d bytes, want the next coordinator's answer", status, len(text))
		}
		other := w.inUse()
		other.handle = func(rw http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(rw, strings.Repeat("x", 2*whole))
			_ = http.NewResponseController(rw).Flush()
			time.Sleep(10 * time.Millisecond)
			other.cut()
			return true
		}
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 0 {
			t.Errorf("a large answer was cut: %d and %d bytes, want an error", status, len(text))
		}
	})
}

// TestACoordinatorWithoutConsul: the Proxy asks another coordinator. If none has Consul, clients
// get the status code after which they retry.
func TestACoordinatorWithoutConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.open()
		w.ask("GET", "/v1/kv/x", nil)
		first := w.inUse()
		without := func(rw http.ResponseWriter, _ *http.Request) bool {
			http.Error(rw, "CONSUL_PROXY_CONSUL_AWAY: no Consul here", http.StatusBadGateway)
			return true
		}
		first.handle = without
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 200 || strings.HasPrefix(text, first.id.Slot) {
			t.Errorf("got %d %q", status, text)
		}
		w.inUse().handle = without
		for _, method := range []string{"GET", "PUT"} {
			if status, text, _ := w.ask(method, "/v1/kv/x", nil); status != 500 || !strings.HasPrefix(text, "CONSUL_PROXY_CONSUL_AWAY") {
				t.Errorf("%s without any: %d %q", method, status, text)
			}
		}
	})
}

// TestCoordinatorsAreTriedOnlyNowAndThen while Consul has no leader: no coordinator can reach a
// leader then, so the Proxy tries each only now and then. The lost coordinator may have been the
// leader.
func TestCoordinatorsAreTriedOnlyNowAndThen(t *testing.T) {
	for name, gone := range map[string]func(*server){"away": (*server).die, "silent": (*server).hush} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { leaderless(t, gone) }) })
	}
}

func leaderless(t *testing.T, gone func(*server)) {
	w := newWorld(t, 3)
	w.open()
	gone(w.servers[2])
	var without atomic.Bool
	without.Store(true)
	for _, s := range w.servers {
		s.handle = func(rw http.ResponseWriter, _ *http.Request) bool {
			if without.Load() {
				http.Error(rw, "CONSUL_PROXY_UNAVAILABLE: No cluster leader", http.StatusServiceUnavailable)
			}
			return without.Load()
		}
	}
	const seconds = 10
	for range seconds * 20 {
		if status, _, _ := w.ask("GET", "/v1/kv/x", nil); status != http.StatusInternalServerError {
			t.Fatalf("status %d, want a status after which Consul's clients retry", status)
		}
		time.Sleep(50 * time.Millisecond)
	}
	conns := 0
	for _, s := range w.servers[:2] {
		s.mu.Lock()
		conns += len(s.conns)
		s.mu.Unlock()
	}
	if conns < 2 || conns > 2*(seconds+1) {
		t.Errorf("%d connections in %d seconds, want each coordinator tried, at most once a second", conns, seconds)
	}
	without.Store(false)
	if status, _, _ := w.ask("GET", "/v1/kv/x", nil); status != http.StatusOK {
		t.Errorf("with a leader: status %d", status)
	}
}

func TestAClientThatGoesAwayEndsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.open()
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:8500/v1/kv/x?index=7", nil)
		var query sync.WaitGroup
		query.Go(func() {
			if res, err := w.client.Do(req); err == nil {
				res.Body.Close()
				t.Error("got an answer")
			}
		})
		synctest.Wait()
		got, _ := w.inUse().requests()
		if len(got) != 1 || got[0].Context().Err() != nil {
			t.Fatalf("%d requests upstream", len(got))
		}
		cancel()
		query.Wait()
		synctest.Wait()
		if got[0].Context().Err() == nil {
			t.Error("the coordinator still works on it")
		}
		if u, _ := w.proxy.current.Get(); u == nil {
			t.Error("the coordinator was left for it")
		} else if n, _ := u.open.Get(); n != 0 || w.proxy.requests.Load() != 0 {
			t.Errorf("%d and %d requests count as open", n, w.proxy.requests.Load())
		}
	})
}

// TestBodiesStream: the client's bytes reach the coordinator before the client continues, and the
// other way around.
func TestBodiesStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.open()
		w.servers[0].handle = func(rw http.ResponseWriter, r *http.Request) bool {
			_ = http.NewResponseController(rw).EnableFullDuplex()
			line := make([]byte, 4)
			for range 3 {
				if _, err := io.ReadFull(r.Body, line); err != nil {
					t.Error(err)
				}
				_, _ = rw.Write(line)
				_ = http.NewResponseController(rw).Flush()
			}
			return true
		}
		body, in := io.Pipe()
		type result struct {
			res *http.Response
			err error
		}
		done := make(chan result, 1)
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://127.0.0.1:8500/v1/kv/x", body)
			res, err := w.client.Do(req)
			done <- result{res, err}
		}()
		_, _ = io.WriteString(in, "one\n")
		synctest.Wait()
		if got, _ := w.servers[0].requests(); len(got) != 1 {
			t.Fatal("the request waits for its body's end")
		}
		_, _ = io.WriteString(in, "two\n")
		_, _ = io.WriteString(in, "end\n")
		_ = in.Close()
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		defer got.res.Body.Close()
		if all, err := io.ReadAll(got.res.Body); err != nil || string(all) != "one\ntwo\nend\n" {
			t.Errorf("got %q, %v", all, err)
		}
	})
}

// An answer before the end of the body announces the end of the connection: the workload's next
// request opens a new connection, and is not lost.
func TestAnAnswerBeforeTheBodysEndAnnouncesTheConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.open()
		w.servers[0].handle = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut {
				return false
			}
			_, _ = io.ReadFull(r.Body, make([]byte, 4))
			rw.WriteHeader(http.StatusForbidden)
			return true
		}
		body, in := io.Pipe()
		defer in.Close()
		go func() { _, _ = io.WriteString(in, "one\n") }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1:8500/v1/kv/x", body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 8
		res, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden || !res.Close {
			t.Errorf("answered %s, and that the connection ends: %t", res.Status, res.Close)
		}
		if status, text, _ := w.ask(http.MethodGet, "/v1/kv/x", nil); status != http.StatusOK {
			t.Errorf("the next request: %d %s", status, text)
		}
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 503 || text != "CONSUL_PROXY_NOT_READY: this boot is not admitted yet" {
			t.Errorf("before admission: %d %q", status, text)
		}
		w.open()
		if status, text, _ := w.ask("PUT", "/v1/kv/x", strings.NewReader(strings.Repeat("x", maxBody+1))); status != 413 || !strings.HasPrefix(text, "CONSUL_PROXY_TOO_LARGE: ") {
			t.Errorf("a body too large: %d %q", status, text)
		}
		unknown := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", maxBody+1))}
		if status, text, _ := w.ask("PUT", "/v1/kv/x", unknown); status != 413 && status != 0 {
			t.Errorf("a body of unknown size: %d %q", status, text)
		}
		if status, text, _ := w.ask("PUT", "/v1/kv/x", strings.NewReader(strings.Repeat("x", maxBody))); status != 200 {
			t.Errorf("the largest body: %d %.80q", status, text)
		}
		if status, _, _ := w.ask("GET", "/v1/kv/"+strings.Repeat("x", 2*maxHeader), nil); status != 431 {
			t.Errorf("a head too large: %d", status)
		}
		w.proxy.requests.Add(maxRequests)
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 429 || !strings.HasPrefix(text, "CONSUL_PROXY_TOO_MANY: ") {
			t.Errorf("one request more: %d %q", status, text)
		}
		w.proxy.requests.Add(-maxRequests)
		var query sync.WaitGroup
		query.Go(func() {
			if status, text, _ := w.ask("GET", "/v1/kv/x?index=7", nil); status != 500 && status != 503 {
				t.Errorf("a query when the slot is lost: %d %q", status, text)
			}
		})
		synctest.Wait()
		w.proxy.Shut("this boot lost its slot")
		query.Wait()
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 503 || text != "CONSUL_PROXY_NOT_READY: this boot lost its slot" {
			t.Errorf("without the slot: %d %q", status, text)
		}
	})
}

// TestConnectionsAreBounded: the connection above the bound is answered and closed, and a released
// place is reused.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.open()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range maxConns {
			all.Go(func() {
				req, _ := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:8500/v1/kv/x?index=7", nil)
				if res, err := w.client.Do(req); err == nil {
					t.Errorf("got %s", res.Status)
					res.Body.Close()
				}
			})
		}
		synctest.Wait()
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 429 || !strings.HasPrefix(text, "CONSUL_PROXY_TOO_MANY: ") {
			t.Errorf("one more: %d %q", status, text)
		}
		cancel()
		all.Wait()
		synctest.Wait()
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 200 {
			t.Errorf("after that: %d %q", status, text)
		}
	})
}

// TestUnusedWithoutConnections: a workload counts for as long as its connection is open,
// whether or not it asks something.
func TestUnusedWithoutConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.open()
		w.proxy.Unused(t.Context()) // no client yet
		if status, text, _ := w.ask("GET", "/v1/kv/x", nil); status != 200 {
			t.Fatalf("%d %q", status, text)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if w.proxy.Unused(short); short.Err() == nil {
			t.Error("a connection that is kept open counts for nothing")
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			w.proxy.Unused(t.Context())
		}()
		synctest.Wait()
		select {
		case <-left:
			t.Error("unused before the workload left")
		default:
		}
		w.client.CloseIdleConnections()
		<-left
	})
}

// TOK-13: a token that no server knows just after its issue is asked about again.
func TestTOK13_NotFoundJustAfterTheIssueIsLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.open()
		known := time.Now().Add(3 * time.Second)
		w.servers[0].handle = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/acl/token/self" || r.Header.Get("X-Consul-Token") != "new" || time.Now().Before(known) {
				http.Error(rw, "ACL not found", http.StatusForbidden)
				return true
			}
			return false
		}
		if err := w.proxy.Knows(t.Context(), "new"); err != nil || time.Now().Before(known) {
			t.Errorf("got %v %v too soon", err, time.Until(known))
		}
		began := time.Now()
		if err := w.proxy.Knows(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "ACL not found") || time.Since(began) < knowLimit {
			t.Errorf("an unknown token: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.proxy.Knows(ctx, "other"); err == nil || errors.Is(err, errNone) {
			t.Errorf("got %v", err)
		}
	})
}
