package store_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func TestNewConsulReportsAllProblems(t *testing.T) {
	_, err := store.NewConsul(store.ConsulConfig{Prefix: "/x", Resync: time.Hour, Margin: time.Minute})
	for _, want := range []string{"address", "prefix", "resync", "margin"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestUnsureOutcomes uses answers that a real server does not give on demand.
func TestUnsureOutcomes(t *testing.T) {
	put := store.Op{Kind: store.OpPut, Key: "a"}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   error
		not    error
	}{
		"no leader":         {status(500, "rpc error making call: No cluster leader"), store.ErrUnknown, store.ErrConflict},
		"leadership lost":   {status(500, "raft apply failed: leadership lost while committing log"), store.ErrUnknown, store.ErrConflict},
		"overloaded":        {status(503, "server is overloaded"), store.ErrUnknown, nil},
		"rate limit":        {status(429, "slow down"), nil, store.ErrUnknown},
		"too large":         {status(413, "too large"), nil, store.ErrUnknown},
		"token unknown":     {status(403, "ACL not found"), store.ErrDenied, store.ErrUnknown},
		"rolled back":       {status(409, `{"Results":null,"Errors":[{"OpIndex":0,"What":"index is stale"}]}`), store.ErrConflict, store.ErrUnknown},
		"denied inside":     {status(409, `{"Errors":[{"OpIndex":0,"What":"Permission denied: token lacks key:write"}]}`), store.ErrDenied, store.ErrConflict},
		"odd failure index": {status(409, `{"Errors":[{"OpIndex":9,"What":"x"}]}`), nil, store.ErrConflict},
		"no failures":       {status(409, `{}`), nil, store.ErrConflict},
		"not JSON":          {status(200, `<html>`), store.ErrUnknown, store.ErrConflict},
		"conflict cut off":  {status(409, `{"Errors":[{"OpI`), store.ErrUnknown, store.ErrConflict},
		"connection cut":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, store.ErrUnknown, store.ErrConflict},
		"silence":           {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, store.ErrUnknown, store.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(readAll(test.answer))
			defer server.Close()
			c := newConsul(t, store.ConsulConfig{Address: server.URL, CallTimeout: 200 * time.Millisecond})
			err := c.Commit(t.Context(), put)
			if err == nil || (test.want != nil && !errors.Is(err, test.want)) || (test.not != nil && errors.Is(err, test.not)) {
				t.Fatalf("got %v, want %v and not %v", err, test.want, test.not)
			}
		})
	}
}

// TestNoAnswerIsUnavailable: the API then answers that a retry may succeed in a moment, and its
// client retries. After the loss of its leader's machine a Consul server does not answer for
// seconds.
func TestNoAnswerIsUnavailable(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"silence":        func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"connection cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(readAll(answer))
			defer server.Close()
			c := newConsul(t, store.ConsulConfig{Address: server.URL, CallTimeout: 200 * time.Millisecond})
			if _, err := c.Get(t.Context(), "a"); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("get: %v, want %v", err, store.ErrUnavailable)
			}
			if _, _, err := c.List(t.Context(), "a/"); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("list: %v, want %v", err, store.ErrUnavailable)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Get(ctx, "a"); errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
				t.Errorf("a call that its caller gave up: %v", err)
			}
		})
	}
}

// readAll lets the server notice that the client disconnected.
func readAll(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 1<<10)
		for {
			if _, err := r.Body.Read(buffer); err != nil {
				break
			}
		}
		next(w, r)
	}
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func TestRefusedConnectionIsCertain(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c := newConsul(t, store.ConsulConfig{Address: address})
	err = c.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: "a"})
	if err == nil || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrConflict) {
		t.Fatalf("got %v, want a certain failure", err)
	}
}

func TestLostReplyIsUnknownAndReadBack(t *testing.T) {
	c := storetest.NewConsul(t)
	op := store.Op{Kind: store.OpPutCAS, Key: "a", Value: []byte("one")}
	c.LoseReplies(true)
	if err := c.Commit(t.Context(), op); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("got %v, want %v", err, store.ErrUnknown)
	}
	if entry, err := c.Get(t.Context(), "a"); err != nil || string(entry.Value) != "one" {
		t.Fatalf("it was applied, but reads as %q, %v", entry.Value, err)
	}
	second := store.Op{Kind: store.OpPutCAS, Key: "b", Value: []byte("two")}
	err := store.CommitResolved(t.Context(), c, []store.Op{second}, func(ctx context.Context) (bool, error) {
		entry, err := c.Get(ctx, "b")
		return string(entry.Value) == "two", err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.LoseReplies(false)
	if err := c.Commit(t.Context(), op); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("sent again: got %v, want %v", err, store.ErrConflict)
	}
}

func TestLostReplyToAcquireLeavesNoLease(t *testing.T) {
	c := storetest.NewConsul(t)
	c.LoseReplies(true)
	if _, err := c.Acquire(t.Context(), "one"); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("got %v, want %v", err, store.ErrUnknown)
	}
	c.LoseReplies(false)
	lease, err := store.AcquireBlocking(t.Context(), c, "two", nil)
	if err != nil {
		t.Fatal(err)
	}
	// The first attempt had taken term 1; it is never used again.
	if lease.Term() != 2 {
		t.Errorf("term %d, want 2", lease.Term())
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSessionHangsOnItsTTLAlone(t *testing.T) {
	addr, _ := storetest.StartConsul(t)
	c := storetest.NewConsul(t)
	lease, err := c.Acquire(t.Context(), "checks")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	session, _, err := client(t, addr, "").Session().Info(lease.Fence()[0].Session, nil)
	if err != nil || session == nil {
		t.Fatalf("got %v, %v", session, err)
	}
	if len(session.Checks) != 0 || len(session.NodeChecks) != 0 || len(session.ServiceChecks) != 0 {
		t.Errorf("checks %v, node checks %v, service checks %v: want none", session.Checks, session.NodeChecks, session.ServiceChecks)
	}
	if session.Behavior != api.SessionBehaviorRelease || session.LockDelay != time.Millisecond || session.TTL != storetest.SessionTTL.String() {
		t.Errorf("behavior %q, lock delay %v, TTL %q", session.Behavior, session.LockDelay, session.TTL)
	}
}

// TestCTL07_NothingIsReadFromADeposedServer: every read makes the server confirm that it leads.
func TestCTL07_NothingIsReadFromADeposedServer(t *testing.T) {
	var mu sync.Mutex
	reads := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodGet {
			reads++
			if !r.URL.Query().Has("consistent") || r.URL.Query().Has("stale") {
				t.Errorf("read of %s?%s", r.URL.Path, r.URL.RawQuery)
			}
		}
		w.Header().Set("X-Consul-Index", "7")
		_, _ = w.Write([]byte("[]"))
	}))
	defer server.Close()
	c := newConsul(t, store.ConsulConfig{Address: server.URL})
	ctx := t.Context()
	_, _ = c.Get(ctx, "a")
	_, _, _ = c.List(ctx, "a/")
	_, _ = c.Watch(ctx, "a/", 3)
	_, _, _ = c.Holder(ctx)
	_, _, _ = store.Read[store.Override](ctx, c, store.OverrideKey(store.OverrideFreeze, store.Everywhere))
	_, _, _ = store.ReadAll[store.Override](ctx, c, "control/")
	_, _ = c.DestroyHolderSession(ctx, "nobody")
	mu.Lock()
	defer mu.Unlock()
	if reads < 7 {
		t.Errorf("only %d reads were made", reads)
	}
}

func TestCTL06_TermRegressionIsRefused(t *testing.T) {
	addr, _ := storetest.StartConsul(t)
	const prefix = "cadre/regression/"
	c := storetest.ConsulAt(t, addr, "", prefix)
	for range 2 {
		lease, err := store.AcquireBlocking(t.Context(), c, "one", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	kv := client(t, addr, "").KV()
	if _, err := kv.Put(&api.KVPair{Key: prefix + store.TermKey, Value: []byte(`{"term":1}`)}, nil); err != nil {
		t.Fatal(err)
	}
	wantRegression(t, c)
	if _, err := kv.Delete(prefix+store.TermKey, nil); err != nil {
		t.Fatal(err)
	}
	wantRegression(t, c)
	if _, err := kv.Put(&api.KVPair{Key: prefix + store.TermKey, Value: []byte(`{"term":7}`)}, nil); err != nil {
		t.Fatal(err)
	}
	lease, err := c.Acquire(t.Context(), "one")
	if err != nil || lease.Term() != 8 {
		t.Fatalf("got %v, %v, want term 8", lease, err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCTL06_CTL09_OPS10_RestoreOfASnapshotIsNoticed: every coordinator from before the restore
// notices it.
func TestCTL06_CTL09_OPS10_RestoreOfASnapshotIsNoticed(t *testing.T) {
	server := storetest.StartConsulACL(t)
	c := storetest.ConsulAt(t, server.Addr, server.ManagementToken, "cadre/v1/")
	lead := func() {
		t.Helper()
		lease, err := store.AcquireBlocking(t.Context(), c, "one", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	lead()
	snapshots := client(t, server.Addr, server.ManagementToken).Snapshot()
	before, _, err := snapshots.Save(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close() //nolint:errcheck // read to its end
	lead()
	if err := snapshots.Restore(nil, before); err != nil {
		t.Fatal(err)
	}
	wantRegression(t, c)
}

func wantRegression(t *testing.T, s store.Store) {
	t.Helper()
	if _, err := store.AcquireBlocking(t.Context(), s, "one", nil); !errors.Is(err, store.ErrTermRegression) {
		t.Fatalf("acquire: got %v, want %v", err, store.ErrTermRegression)
	}
	if _, _, err := s.Holder(t.Context()); !errors.Is(err, store.ErrTermRegression) {
		t.Fatalf("holder: got %v, want %v", err, store.ErrTermRegression)
	}
}

func TestWatchReturnsAtTheResync(t *testing.T) {
	addr, _ := storetest.StartConsul(t)
	c := newConsul(t, store.ConsulConfig{Address: addr, Prefix: storetest.NewPrefix(), Resync: 100 * time.Millisecond})
	if err := c.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: "a/x"}); err != nil {
		t.Fatal(err)
	}
	_, index, err := c.List(t.Context(), "a/")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Watch(t.Context(), "a/", index); err != nil || got != index {
		t.Fatalf("got %d, %v, want %d", got, err, index)
	}
	// A Watch with an index from before a restore returns at the resync.
	if got, err := c.Watch(t.Context(), "a/", index+1000); err != nil || got != index {
		t.Fatalf("got %d, %v, want %d", got, err, index)
	}
}

func TestDirectoryMarkersAreNotRecords(t *testing.T) {
	addr, _ := storetest.StartConsul(t)
	prefix := storetest.NewPrefix()
	c := newConsul(t, store.ConsulConfig{Address: addr, Prefix: prefix})
	if _, err := client(t, addr, "").KV().Put(&api.KVPair{Key: prefix + "control/"}, nil); err != nil {
		t.Fatal(err)
	}
	if entries, _, err := c.List(t.Context(), "control/"); err != nil || len(entries) != 0 {
		t.Fatalf("got %v, %v", entries, err)
	}
}

func newConsul(t *testing.T, cfg store.ConsulConfig) *store.Consul {
	t.Helper()
	c, err := store.NewConsul(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func client(t *testing.T, addr, token string) *api.Client {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: addr, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestALockThatStaysClosedGivesNoLease: a Lease without its lock would lead and could write nothing.
func TestALockThatStaysClosedGivesNoLease(t *testing.T) {
	server := storetest.StartConsulACL(t)
	root := client(t, server.Addr, server.ManagementToken)
	c := newConsul(t, store.ConsulConfig{Address: server.Addr, Token: server.ManagementToken})
	lease, err := c.Acquire(t.Context(), "coordinator-0")
	if err == nil {
		err = lease.Release(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	// The end of this session closes the lock for a minute.
	session, _, err := root.Session().Create(&api.SessionEntry{LockDelay: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, _, err := root.KV().Get(store.DefaultPrefix+store.LeaseKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair.Session = session
	for taken := false; !taken; { // the first Lease's own delay may still last
		if taken, _, err = root.KV().Acquire(pair, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := root.Session().Destroy(session, nil); err != nil {
		t.Fatal(err)
	}
	if lease, err := c.Acquire(t.Context(), "coordinator-0"); err == nil || !strings.Contains(err.Error(), "lock delay") {
		t.Errorf("%v, %v", lease, err)
	}
}
