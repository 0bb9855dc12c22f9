package consulproxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/store/storetest"
)

// A member cannot fill the memory of Consul's servers, by keys or by transactions. The keys of its
// group always fit into one answer.
func TestThreat_DOR06_TheKeysOfAGroupAreBounded(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{Rate: 1e6, Burst: 1e6, SentBurst: 1e9, AnsweredBurst: 1e9})
	m, other := w.member("pg", "pg-1"), w.member("web", "web-0")
	value := strings.Repeat("x", 256<<10)
	n := 0
	for ; n < 64; n++ {
		if got := m.ask(http.MethodPut, "/v1/kv/service/pg/"+string(rune('a'+n%26))+string(rune('a'+n/26)), value); got.status != http.StatusOK {
			if got.code() != consulproxy.CodeOverloaded || !strings.Contains(got.body, "4 MiB of keys") {
				t.Fatalf("%+v", got)
			}
			break
		}
	}
	if n < 8 || n > 12 {
		t.Errorf("%d values of 256 KiB were accepted, want those of 4 MiB", n)
	}
	if got := m.ask(http.MethodPut, "/v1/txn", `[{"KV":{"Verb":"set","Key":"service/pg/zz","Value":"`+strings.Repeat("eHh4", 64<<10)+`"}}]`); got.code() != consulproxy.CodeOverloaded {
		t.Errorf("in a transaction: %d %.100s", got.status, got.body)
	}
	if got := m.ask(http.MethodGet, "/v1/kv/service/pg/?recurse", ""); got.status != http.StatusOK || len(got.body) < 2<<20 {
		t.Errorf("the keys cannot be read: %d, %d bytes", got.status, len(got.body))
	}
	if got := other.ask(http.MethodPut, "/v1/kv/service/web/x", value); got.status != http.StatusOK {
		t.Errorf("another group: %+v", got)
	}
	// After a deletion the group has room again.
	if got := m.ask(http.MethodDelete, "/v1/kv/service/pg/?recurse", ""); got.body != "true" {
		t.Fatalf("%+v", got)
	}
	w.later(3 * time.Second)
	if got := m.ask(http.MethodPut, "/v1/kv/service/pg/x", value); got.status != http.StatusOK {
		t.Errorf("after a deletion: %d %.100s", got.status, got.body)
	}
}

// The bounds also apply to bytes.
func TestThreat_DOR06_TheBytesOfAMemberAreBounded(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{Rate: 1e6, Burst: 1e6, Sent: 1, SentBurst: 100 << 10, Answered: 1, AnsweredBurst: 100 << 10, Answer: 150 << 10})
	m, other := w.member("pg", "pg-1"), w.member("pg", "pg-2")
	value := strings.Repeat("x", 60<<10)
	for i, want := range []string{"", "", consulproxy.CodeOverloaded} {
		if got := m.ask(http.MethodPut, "/v1/kv/service/pg/x", value); got.code() != want {
			t.Errorf("write %d: %d %.100s", i, got.status, got.body)
		}
	}
	for i, want := range []string{"", "", consulproxy.CodeOverloaded} {
		if got := m.ask(http.MethodGet, "/v1/kv/service/pg/x", ""); got.code() != want {
			t.Errorf("read %d: %d %.100s", i, got.status, got.body)
		}
	}
	// An oversized answer is an error instead of a truncated answer.
	for _, key := range []string{"y", "z"} {
		if _, err := w.admin.KV().Put(&consul.KVPair{Key: "service/pg/" + key, Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := other.ask(http.MethodGet, "/v1/kv/service/pg/?recurse", ""); got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "150 KiB") {
		t.Errorf("%d %.200s", got.status, got.body)
	}
}

// A filter without a match is as much work as a filter that matches all entries.
func TestThreat_DOR05_ScansCountForSeveral(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{Rate: 1e-9, Burst: 25})
	m := w.member("pg", "pg-1")
	for i, c := range []struct{ target, want string }{
		{`/v1/health/service/pg?filter=Node.Node+%3D%3D+"x"`, ""}, {"/v1/catalog/nodes", ""}, {"/v1/catalog/nodes", consulproxy.CodeOverloaded}, {"/v1/health/service/pg", ""},
	} {
		if got := m.ask(http.MethodGet, c.target, ""); got.code() != c.want {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

// A caller that sends an endless body or reads no answer holds no place.
func TestThreat_DOR05_SlowMembersHoldNoPlaceOfOthers(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{AllRunning: 1})
	hostile, m := w.member("web", "web-0"), w.member("pg", "pg-1")
	if got := hostile.ask(http.MethodPut, "/v1/kv/service/web/x", strings.Repeat("x", 256<<10)); got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 3 {
		sending := w.raw(ctx, hostile.Caller)
		writeAll(t, sending, "PUT /v1/kv/service/web/y HTTP/1.1\r\nHost: x\r\nX-Consul-Token: "+hostile.token+"\r\nContent-Length: 1000\r\n\r\nhalf")
		reading := w.raw(ctx, hostile.Caller)
		writeAll(t, reading, "GET /v1/kv/service/web/x?raw HTTP/1.1\r\nHost: x\r\nX-Consul-Token: "+hostile.token+"\r\n\r\n")
		if _, err := io.ReadFull(reading, make([]byte, 16)); err != nil { // the answer began
			t.Fatal(err)
		}
	}
	for range 20 {
		if got := m.ask(http.MethodPut, "/v1/kv/service/pg/x", "y"); got.status != http.StatusOK {
			t.Fatalf("another member: %+v", got)
		}
	}
}

func writeAll(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.Copy(conn, bytes.NewBufferString(text)); err != nil {
		t.Fatal(err)
	}
}

// Consul bounds the connections of one address, and each blocking query of a member takes one.
func TestThreat_DOR05_MembersTakeNoConnectionOfTheCoordinators(t *testing.T) {
	const queries = storetest.MaxConns + 100
	w := newWorld(t, consulproxy.Limits{Blocked: queries, Rate: 1e6, Burst: 1e6, Conns: queries})
	m := w.member("pg", "pg-1")
	if got := m.ask(http.MethodPut, "/v1/kv/service/pg/x", "y"); got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	index := m.ask(http.MethodGet, "/v1/kv/service/pg/x", "").header.Get("X-Consul-Index")
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	refused := make(chan struct{}, queries)
	for range queries {
		waiting.Go(func() {
			got, err := m.try(ctx, m.client, http.MethodGet, "/v1/kv/service/pg/x?wait=1m&index="+index, "")
			if !errors.Is(err, context.Canceled) && (err != nil || got.status != http.StatusOK) {
				refused <- struct{}{}
			}
		})
	}
	accepted := make(chan struct{})
	go func() { waiting.Wait(); close(accepted) }()
	select {
	case <-refused: // Consul accepts no more from the Consul proxy
	case <-accepted:
		t.Fatal("Consul accepted the connection of each query: the test opens too few")
	}
	fresh, err := consul.NewClient(&consul.Config{Address: w.server.Addr, Token: w.server.ManagementToken, Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := fresh.Status().Leader(); err != nil {
			t.Fatalf("the coordinator itself: %v", err)
		}
	}
	cancel()
	<-accepted
}

// Many concurrent requests create no more sessions than sequential ones.
func TestDOR04_SessionsAreCountedOneAtATime(t *testing.T) {
	w := newWorld(t, consulproxy.Limits{Sessions: 2})
	m := w.member("pg", "pg-1")
	var making sync.WaitGroup
	for range 12 {
		making.Go(func() {
			_, _ = m.try(t.Context(), m.client, http.MethodPut, "/v1/session/create", `{"TTL":"60s"}`)
		})
	}
	making.Wait()
	all, _, err := w.admin.Session().List(nil)
	if err != nil || len(all) == 0 || len(all) > 2 {
		t.Errorf("%d sessions, %v", len(all), err)
	}
}
