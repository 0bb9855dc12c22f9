package consulproxy_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/store"
)

// This test tries every use of a member's token and Session beyond its own keys and sessions. The
// test checks that the Consul proxy or Consul refuses each.
func TestThreat_TOK05_IDN09_DOR01_DOR02_AMemberAtTheProxy(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{Rate: 1e6, Burst: 1e6})
	victim, m, other := w.member("pg", "pg-0"), w.member("pg", "pg-1"), w.member("web", "web-0")
	theirs, lock := victim.session(), other.session()
	records, err := store.NewConsul(store.ConsulConfig{Address: w.server.Addr, Token: w.server.ManagementToken})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := records.Acquire(t.Context(), "coordinator-0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(t.Context()) }()
	pair, _, err := w.admin.KV().Get("cadre/v1/"+store.LeaseKey, nil)
	if err != nil || pair == nil {
		t.Fatal(err)
	}
	if got := victim.ask(http.MethodPut, "/v1/kv/service/pg/leader?acquire="+theirs, "pg-0"); got.body != "true" {
		t.Fatalf("%+v", got)
	}
	const consulSays = "consul: 403"
	token := func(secret string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("X-Consul-Token", secret) }
	}
	const operator = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"
	if err := w.issuer.EnsureOperator(t.Context(), operator, []string{"pg"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method, target, body, by string
		set                            []func(*http.Request)
	}{
		{name: "rename a node over its ID", method: "PUT", target: "/v1/catalog/register", body: `{"Node":"pg-1","ID":"11111111-2222-8333-8444-555555555555","Address":"127.0.0.1"}`, by: consulproxy.CodeForbidden},
		{name: "the same in a transaction", method: "PUT", target: "/v1/txn", body: `[{"Node":{"Verb":"set","Node":{"Node":"pg-1","ID":"x"}}}]`, by: consulproxy.CodeForbidden},
		{name: "take a victim's node out", method: "PUT", target: "/v1/catalog/deregister", body: `{"Node":"pg-0"}`, by: consulproxy.CodeForbidden},
		{name: "take a victim's service out", method: "PUT", target: "/v1/catalog/deregister", body: `{"Node":"pg-0","ServiceID":"pg"}`, by: consulproxy.CodeForbidden},
		{name: "the same in a transaction", method: "PUT", target: "/v1/txn", body: `[{"Service":{"Verb":"delete","Node":"pg-0","Service":{"ID":"pg"}}}]`, by: consulproxy.CodeForbidden},
		{name: "register a service at the server's agent", method: "PUT", target: "/v1/agent/service/register", body: `{"Name":"pg"}`, by: consulproxy.CodeForbidden},
		{name: "end a victim's session", method: "PUT", target: "/v1/session/destroy/" + theirs, by: consulSays},
		{name: "renew a victim's session", method: "PUT", target: "/v1/session/renew/" + theirs, by: consulSays},
		{name: "end another group's session", method: "PUT", target: "/v1/session/destroy/" + lock, by: consulSays},
		{name: "end the leader's session", method: "PUT", target: "/v1/session/destroy/" + pair.Session, by: consulSays},
		{name: "list a victim's sessions", method: "GET", target: "/v1/session/node/pg-0", by: consulproxy.CodeForbidden},
		{name: "read another group's keys", method: "GET", target: "/v1/kv/service/web/leader", by: consulproxy.CodeForbidden},
		{name: "write another group's keys", method: "PUT", target: "/v1/kv/service/web/leader", body: "x", by: consulproxy.CodeForbidden},
		{name: "write them in a transaction", method: "PUT", target: "/v1/txn", body: `[{"KV":{"Verb":"set","Key":"service/web/leader"}}]`, by: consulproxy.CodeForbidden},
		{name: "read Cadre's records", method: "GET", target: "/v1/kv/cadre/v1/admissions/pg-1", by: consulproxy.CodeForbidden},
		{name: "write Cadre's records", method: "PUT", target: "/v1/kv/cadre/v1/groups/pg/spec", body: "{}", by: consulproxy.CodeForbidden},
		{name: "take a Boot's lease", method: "PUT", target: "/v1/kv/cadre/v1/lease/boots/pg-0?acquire=" + theirs, by: consulproxy.CodeForbidden},
		{name: "wait for a change of all keys", method: "GET", target: "/v1/kv/?recurse&index=1&wait=10m", by: consulproxy.CodeForbidden},
		{name: "list all keys", method: "GET", target: "/v1/kv/?keys", by: consulproxy.CodeForbidden},
		{name: "delete all keys", method: "DELETE", target: "/v1/kv/?recurse", by: consulproxy.CodeForbidden},
		{name: "a path of dots", method: "GET", target: "/v1/kv/service/pg/../../cadre/v1/lease/term", by: consulproxy.CodeInvalid},
		{name: "a hidden slash", method: "GET", target: "/v1/kv/service/pg/%2e%2e%2f%2e%2e%2fcadre/v1/lease/term", by: consulproxy.CodeInvalid},
		{name: "the token of another Slot", method: "GET", target: "/v1/kv/service/pg/leader", by: consulproxy.CodeTokenForeign, set: []func(*http.Request){token(victim.token)}},
		{name: "the token of another group", method: "GET", target: "/v1/kv/service/pg/leader", by: consulproxy.CodeTokenForeign, set: []func(*http.Request){token(other.token)}},
		{name: "an operator's token", method: "GET", target: "/v1/kv/service/pg/leader", by: consulproxy.CodeTokenForeign, set: []func(*http.Request){token(operator)}},
		{name: "the management token", method: "GET", target: "/v1/kv/service/pg/leader", by: consulproxy.CodeTokenForeign, set: []func(*http.Request){token(w.server.ManagementToken)}},
		{name: "a token that is none", method: "GET", target: "/v1/kv/service/pg/leader", by: consulproxy.CodeTokenForeign, set: []func(*http.Request){token("11111111-2222-3333-4444-555555555555")}},
		{name: "no token", method: "GET", target: "/v1/kv/service/pg/leader", by: consulproxy.CodeTokenMissing, set: []func(*http.Request){func(r *http.Request) { r.Header.Del("X-Consul-Token") }}},
		{name: "another group's key in encoded slashes", method: "GET", target: "/v1/kv/service%2Fweb%2Fleader", by: consulproxy.CodeForbidden},
		{name: "Cadre's records in encoded slashes", method: "GET", target: "/v1/kv/cadre%2Fv1%2Flease%2Fterm", by: consulproxy.CodeForbidden},
		{name: "slashes that are encoded twice", method: "GET", target: "/v1/kv/service%2Fpg%2Fx%252F..%252Fweb", by: consulproxy.CodeInvalid},
		{name: "a folder that another group's name begins with", method: "GET", target: "/v1/kv/service/we?recurse", by: consulproxy.CodeForbidden},
		{name: "two tokens", method: "GET", target: "/v1/kv/service/pg/leader?token=" + operator, by: consulproxy.CodeInvalid},
		{name: "read the gossip keys", method: "GET", target: "/v1/operator/keyring", by: consulproxy.CodeForbidden},
		{name: "a snapshot", method: "GET", target: "/v1/snapshot", by: consulproxy.CodeForbidden},
		{name: "list tokens", method: "GET", target: "/v1/acl/tokens", by: consulproxy.CodeForbidden},
		{name: "rights of its own", method: "PUT", target: "/v1/acl/policy", body: `{"Name":"x"}`, by: consulproxy.CodeForbidden},
		{name: "a body that is too long", method: "PUT", target: "/v1/kv/service/pg/x", body: strings.Repeat("x", 512<<10+1), by: consulproxy.CodeInvalid},
		{name: "a body where none belongs", method: "PUT", target: "/v1/session/renew/" + theirs, body: "x", by: consulproxy.CodeInvalid},
	} {
		got := m.ask(c.method, c.target, c.body, c.set...)
		by := got.code()
		if by == "" && got.status == http.StatusForbidden {
			by = consulSays
		}
		if by != c.by {
			t.Errorf("%s: %d %s, want it refused as %s", c.name, got.status, got.body, c.by)
		}
	}
	// Answers that Consul filters by rights show nothing of other members.
	for _, target := range []string{"/v1/session/info/" + theirs, "/v1/session/info/" + pair.Session, "/v1/session/list"} {
		if got := m.ask(http.MethodGet, target, ""); got.status != http.StatusOK || strings.TrimSpace(got.body) != "[]" {
			t.Errorf("%s: %+v", target, got)
		}
	}
	if got := m.ask(http.MethodGet, "/v1/catalog/nodes", ""); strings.Contains(got.body, store.LeaseNodePrefix) || !strings.Contains(got.body, "pg-0") {
		t.Errorf("nodes %s", got.body)
	}
	for name, id := range map[string]string{"victim": theirs, "other": lock, "leader": pair.Session} {
		if entry, _, err := w.admin.Session().Info(id, nil); err != nil || entry == nil {
			t.Errorf("the session of %s has ended: %v", name, err)
		}
	}
	if lease.Context().Err() != nil {
		t.Error("the leader's lease ended")
	}
}

// Sessions are on the member's own node, also if the body names another one, and end with that
// node.
func TestDOR04_SessionsAreOnTheOwnNode(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{Sessions: 3})
	w.member("pg", "pg-0")
	m := w.member("pg", "pg-1")
	for _, body := range []string{`{"Node":"pg-0","TTL":"60s"}`, `{"node":"test","Checks":["serfHealth"],"TTL":"60s"}`, `{"TTL":"60s"}`} {
		if got := m.ask(http.MethodPut, "/v1/session/create", body); got.status != http.StatusOK {
			t.Fatalf("%s: %+v", body, got)
		}
	}
	if got := m.ask(http.MethodPut, "/v1/session/create", `{"TTL":"60s"}`); got.code() != consulproxy.CodeOverloaded || got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("a fourth session: %+v", got)
	}
	all, _, err := w.admin.Session().List(nil)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	for _, s := range all {
		if s.Node != "pg-1" || len(s.Checks)+len(s.NodeChecks)+len(s.ServiceChecks) > 0 {
			t.Errorf("session %+v", s)
		}
	}
	if _, err := w.admin.Catalog().Deregister(&consul.CatalogDeregistration{Node: "pg-1"}, nil); err != nil {
		t.Fatal(err)
	}
	if all, _, err := w.admin.Session().List(nil); err != nil || len(all) > 0 {
		t.Errorf("%d sessions are left, %v", len(all), err)
	}
	// Patroni reads the minimum TTL from this text.
	w.member("pg", "pg-2")
	if got := w.member("pg", "pg-2").ask(http.MethodPut, "/v1/session/create", `{"TTL":"1s"}`); got.code() != "" || !strings.Contains(got.body, "Invalid Session TTL") {
		t.Errorf("too short a TTL: %+v", got)
	}
	if got := m.ask(http.MethodGet, "/v1/agent/self", ""); !strings.Contains(got.body, `"SessionTTLMin":10000000000`) || strings.Contains(got.body, "DebugConfig") || !strings.Contains(got.body, `"NodeName":"pg-1"`) {
		t.Errorf("agent/self: %+v", got)
	}
}

// After the loss of its Slot neither a new nor a waiting request of the member succeeds.
func TestDOR03_AMemberThatLostItsSlotIsRefused(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{})
	m := w.member("pg", "pg-1")
	if got := m.ask(http.MethodPut, "/v1/kv/service/pg/x", "y"); got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	index := m.ask(http.MethodGet, "/v1/kv/service/pg/x", "").header.Get("X-Consul-Index")
	waiting := make(chan error, 1)
	go func() {
		_, err := m.try(context.WithoutCancel(t.Context()), m.client, http.MethodGet, "/v1/kv/service/pg/x?wait=10m&index="+index, "")
		waiting <- err
	}()
	w.mu.Lock()
	w.gone[m.Boot] = true
	w.mu.Unlock()
	if got, err := m.try(t.Context(), m.client, http.MethodGet, "/v1/kv/service/pg/x", ""); err != nil || got.code() != consulproxy.CodeNotAdmitted {
		t.Errorf("%+v, %v", got, err)
	}
	m.leave() // its Session ends
	<-waiting
}

// The answer comes with the change, over HTTP/1.1 and HTTP/2.
func TestProxy_BlockingQueries(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{})
	m := w.member("pg", "pg-1")
	for _, h2 := range []bool{false, true} {
		client, _ := w.way(m.Caller, h2)
		if got, err := m.try(t.Context(), client, http.MethodPut, "/v1/kv/service/pg/x", "before"); err != nil || got.status != http.StatusOK {
			t.Fatalf("%+v %v", got, err)
		}
		read, err := m.try(t.Context(), client, http.MethodGet, "/v1/kv/service/pg/x?raw", "")
		if err != nil || read.body != "before" {
			t.Fatalf("%+v %v", read, err)
		}
		type result struct {
			answer
			err error
		}
		waiting := make(chan result, 1)
		go func() {
			got, err := m.try(t.Context(), client, http.MethodGet, "/v1/kv/service/pg/x?raw&wait=10m&index="+read.header.Get("X-Consul-Index"), "")
			waiting <- result{got, err}
		}()
		if got, err := m.try(t.Context(), client, http.MethodPut, "/v1/kv/service/pg/x", "after"); err != nil || got.status != http.StatusOK {
			t.Fatalf("%+v %v", got, err)
		}
		if got := <-waiting; got.err != nil || got.body != "after" {
			t.Errorf("%+v", got)
		}
	}
}

// A member that sends as many requests as it can is refused with a retry delay. Every request of
// another member is answered.
func TestThreat_DOR05_AFloodOfOneMember(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{})
	hostile, m := w.member("web", "web-0"), w.member("pg", "pg-1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var (
		flood   sync.WaitGroup
		refused atomic.Int64
		once    sync.Once
		held    = make(chan struct{})
	)
	for i := range 24 {
		client, _ := w.way(hostile.Caller, i%2 == 0)
		for j := range 12 {
			target := []string{"/v1/kv/service/web/?recurse", "/v1/catalog/nodes", "/v1/kv/service/web/x?index=1&wait=10m", "/v1/snapshot"}[j%4]
			flood.Go(func() {
				for ctx.Err() == nil {
					got, err := hostile.try(ctx, client, http.MethodGet, target, "")
					// An excess connection is closed without an answer. The other connections may
					// all carry waiting queries, and then no further refusal is visible.
					if err != nil && ctx.Err() == nil {
						refused.Add(1)
						once.Do(func() { close(held) })
					}
					if err == nil && got.code() == consulproxy.CodeOverloaded {
						if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" {
							t.Errorf("%+v", got)
						}
						refused.Add(1)
						once.Do(func() { close(held) })
					}
				}
			})
		}
	}
	<-held
	for range 100 {
		if got := m.ask(http.MethodPut, "/v1/kv/service/pg/x", "y"); got.status != http.StatusOK {
			t.Fatalf("another member is not served: %+v", got)
		}
	}
	cancel()
	flood.Wait()
	t.Logf("%d requests of the flood were refused", refused.Load())
}

var _ consulproxy.Tokens = (*tokens.Issuer)(nil)

// The client encodes the whole key, slashes included. Consul must receive the intended key, and a
// folder without its slash must only show keys of this group.
func TestDOR01_KeysAsNpmConsulWritesThem(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{})
	m := w.member("pg", "pg-1")
	other := w.member("pg2", "pg2-0")
	if got := other.ask(http.MethodPut, "/v1/kv/service%2Fpg2%2Fa", "theirs"); got.body != "true" {
		t.Fatalf("%+v", got)
	}
	if got := m.ask(http.MethodPut, "/v1/kv/service%2Fpg%2Fjs%2Fa", "v"); got.body != "true" {
		t.Fatalf("%+v", got)
	}
	pair, _, err := w.admin.KV().Get("service/pg/js/a", nil)
	if err != nil || pair == nil || string(pair.Value) != "v" {
		t.Fatalf("Consul has %+v, %v", pair, err)
	}
	for target, want := range map[string]string{
		"/v1/kv/service%2Fpg%2Fjs%2Fa?raw=true":  "v",
		"/v1/kv/service%2Fpg%2Fjs%2F?keys=true":  `["service/pg/js/a"]`,
		"/v1/kv/service%2Fpg?keys=true":          `["service/pg/js/a"]`,
		"/v1/kv/service/pg?keys":                 `["service/pg/js/a"]`,
		"/v1/kv/service/pg/?keys&separator=%2F":  `["service/pg/js/"]`,
		"/v1/kv/service%2Fpg?keys&separator=%2F": `["service/pg/js/"]`,
	} {
		if got := m.ask(http.MethodGet, target, ""); got.status != http.StatusOK || strings.TrimSpace(got.body) != want {
			t.Errorf("%s: %d %s, want %s", target, got.status, got.body, want)
		}
	}
	if got := m.ask(http.MethodDelete, "/v1/kv/service%2Fpg?recurse=true", ""); got.body != "true" {
		t.Errorf("%+v", got)
	}
	left, _, err := w.admin.KV().Keys("service/", "", nil)
	if err != nil || len(left) != 1 || left[0] != "service/pg2/a" {
		t.Errorf("Consul has the keys %v, %v", left, err)
	}
}

// The answer to a request without a token says where to find it, in a text that npm's consul shows.
func TestARequestWithoutATokenLearnsWhereItIs(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{})
	m, other := w.member("pg", "pg-1"), w.member("pg", "pg-2")
	for _, c := range []struct {
		code, says string
		set        func(*http.Request)
	}{
		{consulproxy.CodeTokenMissing, "has no token", func(r *http.Request) { r.Header.Del("X-Consul-Token") }},
		{consulproxy.CodeTokenForeign, "not this member's token", func(r *http.Request) { r.Header.Set("X-Consul-Token", other.token) }},
	} {
		got := m.ask(http.MethodGet, "/v1/kv/service/pg/leader", "", c.set)
		if got.status != http.StatusForbidden || got.code() != c.code || !strings.Contains(got.body, c.says) || !strings.Contains(got.body, "/run/mesh/consul-token") {
			t.Errorf("%+v, want %s", got, c.code)
		}
		if len(got.body) >= 80 {
			t.Errorf("%s: the text has %d bytes: %s", c.code, len(got.body), got.body)
		}
	}
}
