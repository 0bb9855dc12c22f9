package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/catalog"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// world is a real Consul with the records of one Slot.
type world struct {
	t       *testing.T
	server  storetest.ConsulServer
	store   *store.Consul
	admin   *consul.Client
	session string
}

// one coordinator of the world.
type one struct {
	w       *world
	writer  *catalog.Writer
	reports *reports.Reports
}

const slot, vip = "pg-1", "127.50.1.2"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, server: storetest.StartConsulACL(t)}
	var err error
	if w.store, err = store.NewConsul(store.ConsulConfig{Address: w.server.Addr, Token: w.server.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	if w.admin, err = consul.NewClient(&consul.Config{Address: w.server.Addr, Token: w.server.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	put(w, store.SlotKey("pg", slot), group.SlotRecord{Group: "pg", Slot: slot, Ordinal: 1, VIP: vip})
	return w
}

func put[T any](w *world, key string, value T) {
	w.t.Helper()
	var index uint64
	if e, err := w.store.Get(w.t.Context(), key); err == nil {
		index = e.Index
	}
	op, err := store.Put(key, value, index)
	if err == nil {
		err = w.store.Commit(w.t.Context(), op)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// admit admits a Boot to the Slot, with its lease.
func (w *world) admit(boot string) {
	w.t.Helper()
	w.unlock()
	put(w, store.AdmissionKey(slot), policy.Admission{Group: "pg", Slot: slot, BootID: boot})
	var err error
	if w.session, err = w.store.CreateSession(w.t.Context(), boot, time.Minute); err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.Commit(w.t.Context(), store.Op{Kind: store.OpLock, Key: store.BootLeaseKey(slot),
		Value: []byte(`{"slot":"` + slot + `","boot_id":"` + boot + `"}`), Session: w.session}); err != nil {
		w.t.Fatal(err)
	}
}

// unlock frees the lease of the Boot.
func (w *world) unlock() {
	w.t.Helper()
	if w.session != "" {
		if err := w.store.DestroySession(w.t.Context(), w.session); err != nil {
			w.t.Fatal(err)
		}
		w.session = ""
	}
}

func (w *world) coordinator(first bool) *one {
	w.t.Helper()
	return w.coordinatorAt(w.server.Addr, first)
}

// coordinatorAt makes a coordinator that reaches Consul's catalog at that address.
func (w *world) coordinatorAt(address string, first bool, change ...func(*catalog.Config)) *one {
	w.t.Helper()
	views := view.NewWatcher(w.store, slog.New(slog.DiscardHandler))
	c := &one{w: w, reports: reports.New(time.Now)}
	cfg := catalog.Config{
		Address: address, Token: w.server.ManagementToken, Store: w.store, Views: views, Reports: c.reports,
		First: func() bool { return first }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	c.writer, err = catalog.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan struct{}, 2)
	go func() { _ = views.Run(ctx); ended <- struct{}{} }()
	go func() { _ = c.writer.Run(ctx); ended <- struct{}{} }()
	w.t.Cleanup(func() { cancel(); <-ended; <-ended })
	return c
}

func (c *one) report(boot string, sequence uint64, role controlv1.Role, health controlv1.Health) {
	c.reports.Put(slot, boot, &controlv1.Report{
		Sequence: sequence, MemberKnown: true, Member: &controlv1.MemberView{Role: role, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true},
		Checks: []*controlv1.CheckResult{{Name: "c", Health: health}},
	})
	c.writer.Note(slot)
}

// state is the Slot's state in discovery.
type state struct {
	there  bool
	boot   string
	status string
	why    string
	tags   []string
	port   int
}

// await waits until the catalog has the wanted state, with a check at each change of the service.
func (w *world) await(what string, want func(state) bool) state {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	var index uint64
	for {
		list, meta, err := w.admin.Health().Service("pg", "", false, (&consul.QueryOptions{WaitIndex: index, WaitTime: 10 * time.Second}).WithContext(ctx))
		if err != nil {
			w.t.Fatalf("%s: %v; it is %+v", what, err, w.state())
		}
		if now := w.of(list); want(now) {
			return now
		}
		index = meta.LastIndex
	}
}

func (w *world) state() state {
	w.t.Helper()
	list, _, err := w.admin.Health().Service("pg", "", false, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.of(list)
}

func (w *world) of(list []*consul.ServiceEntry) state {
	if len(list) == 0 {
		return state{}
	}
	e := list[0]
	if e.Node.Node != slot || e.Node.ID != "" || e.Node.Address != vip || e.Service.Address != vip || len(e.Checks) != 1 || e.Checks[0].CheckID != "pg:ready" {
		w.t.Fatalf("entry %+v of node %+v with checks %+v", e.Service, e.Node, e.Checks)
	}
	if e.Node.Meta[catalog.MetaBoot] != e.Service.Meta[catalog.MetaBoot] {
		w.t.Fatalf("node of %v, service of %v", e.Node.Meta, e.Service.Meta)
	}
	return state{true, e.Service.Meta[catalog.MetaBoot], e.Checks[0].Status, e.Checks[0].Output, e.Service.Tags, e.Service.Port}
}

// index of Consul's log: it grows with each write.
func (w *world) index() uint64 {
	w.t.Helper()
	_, meta, err := w.admin.Catalog().Services(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return meta.LastIndex
}

func (w *world) newSession() string {
	w.t.Helper()
	id, _, err := w.admin.Session().CreateNoChecks(&consul.SessionEntry{Node: slot, TTL: "60s"}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) alive(session string) bool {
	w.t.Helper()
	e, _, err := w.admin.Session().Info(session, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return e != nil
}

// Callers that use only the catalog need the port, and it follows the accepted spec of the group.
func TestTheGroupsOwnServiceHasItsPort(t *testing.T) {
	w := newWorld(t)
	spec := func(port int) []byte {
		spec := group.Spec{
			Name: "pg", Platform: "phala", Replicas: 3, Backends: []group.Backend{{Name: "sql", Port: port}},
			Template: group.Template{Compose: "services:\n  pg:\n    image: example.org/pg@sha256:" + strings.Repeat("a", 64) + "\n", InstanceType: "tdx.small", OSImage: "dstack-0.5.7"},
		}
		spec.Normalize()
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	put(w, store.GroupAcceptedKey("pg"), store.AcceptedSpec{Group: "pg", SpecIndex: 1, Spec: spec(5432), Term: 1})
	w.admit("b1")
	c := w.coordinator(true)
	c.report("b1", 1, controlv1.Role_ROLE_NONE, controlv1.Health_HEALTH_HEALTHY)
	w.await("with its port", func(s state) bool { return s.port == 5432 && s.status == consul.HealthPassing })
	put(w, store.GroupAcceptedKey("pg"), store.AcceptedSpec{Group: "pg", SpecIndex: 2, Spec: spec(6432), Term: 1})
	w.await("with another one", func(s state) bool { return s.port == 6432 && s.status == consul.HealthPassing })
}

// TestTheLifeOfAnEntry follows one Slot from its admission to its eviction.
func TestTheLifeOfAnEntry(t *testing.T) {
	w := newWorld(t)
	w.admit("b1")
	c := w.coordinator(true)
	if err := c.writer.Register(t.Context(), "pg", slot, "b1", vip); err != nil {
		t.Fatal(err)
	}
	if got := w.state(); got.boot != "b1" || got.status != consul.HealthCritical || got.why != catalog.WhyNoReport {
		t.Errorf("registered as %+v", got)
	}
	session := w.newSession() // without a wait
	c.report("b1", 1, controlv1.Role_ROLE_FOLLOWER, controlv1.Health_HEALTH_HEALTHY)
	w.await("healthy", func(s state) bool {
		return s.status == consul.HealthPassing && slices.Equal(s.tags, []string{"follower"})
	})
	c.report("b1", 2, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
	w.await("leads", func(s state) bool {
		return s.status == consul.HealthPassing && slices.Equal(s.tags, []string{"leader"})
	})
	c.report("b1", 3, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_UNHEALTHY)
	w.await("unhealthy", func(s state) bool { return s.status == consul.HealthCritical && s.why == catalog.WhyUnhealthy })
	c.report("b1", 4, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
	w.await("healthy again", func(s state) bool { return s.status == consul.HealthPassing })

	// An Operation that drains the member takes it out of discovery, without a report.
	put(w, store.OperationKey("op"), operation.Operation{ID: "op", Group: "pg", Slot: slot, Phase: operation.Drained})
	w.await("draining", func(s state) bool { return s.status == consul.HealthCritical && s.why == catalog.WhyDraining })
	if !w.alive(session) {
		t.Error("a session ended with a change of the entry")
	}
	put(w, store.OperationKey("op"), operation.Operation{ID: "op", Group: "pg", Slot: slot, Phase: operation.Aborted})
	w.await("back", func(s state) bool { return s.status == consul.HealthPassing })

	// The lease becomes free; then a coordinator receives reports again.
	w.unlock()
	w.await("silent", func(s state) bool {
		return s.why == catalog.WhySilent && s.status == consul.HealthCritical && len(s.tags) == 0
	})

	// Another Boot takes the Slot: the sessions of the previous Boot end.
	w.admit("b2")
	if err := c.writer.Register(t.Context(), "pg", slot, "b2", vip); err != nil {
		t.Fatal(err)
	}
	w.await("another boot", func(s state) bool { return s.boot == "b2" && s.why == catalog.WhyNoReport })
	if w.alive(session) {
		t.Error("a session of the boot before is left")
	}
	c.report("b2", 1, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
	w.await("its report", func(s state) bool { return s.boot == "b2" && s.status == consul.HealthPassing })

	// Eviction removes the Boot's node; a late eviction of the previous Boot does not.
	session = w.newSession()
	if err := c.writer.Remove(t.Context(), slot, "b1"); err != nil || !w.alive(session) {
		t.Errorf("removal of another boot: %v", err)
	}
	if err := c.writer.Remove(t.Context(), slot, "b2"); err != nil || w.alive(session) || w.state().there {
		t.Errorf("removal: %v, %+v", err, w.state())
	}
	if err := c.writer.Remove(t.Context(), slot, "b2"); err != nil {
		t.Errorf("removal again: %v", err)
	}
}

// A write without an answer was made all the same, and the next state of the member overwrites it.
func TestAWriteWithoutAnAnswerIsReadAgain(t *testing.T) {
	w := newWorld(t)
	var lose atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.server.Addr})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodPut && lose.Load() {
			return errors.New("the answer is lost")
		}
		return nil
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	w.admit("b1")
	c := w.coordinatorAt(strings.TrimPrefix(front.URL, "http://"), true)
	if err := c.writer.Register(t.Context(), "pg", slot, "b1", vip); err != nil {
		t.Fatal(err)
	}
	c.report("b1", 1, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
	w.await("leads", func(s state) bool { return s.status == consul.HealthPassing })
	lose.Store(true)
	c.report("b1", 2, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_UNHEALTHY)
	w.await("unhealthy", func(s state) bool { return s.status == consul.HealthCritical })
	c.report("b1", 3, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
	lose.Store(false)
	w.await("healthy again", func(s state) bool { return s.status == consul.HealthPassing })
}

// A Boot without the lease is never registered, however late the call is and however outdated the
// coordinator's View.
func TestAnEvictedBootIsNotRegistered(t *testing.T) {
	w := newWorld(t)
	w.admit("b1")
	c := w.coordinator(true)
	w.unlock()
	if err := c.writer.Register(t.Context(), "pg", slot, "b1", vip); err == nil {
		t.Error("it is registered")
	}
	if got := w.state(); got.there {
		t.Errorf("%+v", got)
	}
}

// Each coordinator receives every report, in any order. The newest report wins, and reports without
// a change write nothing.
func TestCoordinatorsAgree(t *testing.T) {
	w := newWorld(t)
	w.admit("b1")
	a, b := w.coordinator(true), w.coordinator(false)
	if err := a.writer.Register(t.Context(), "pg", slot, "b1", vip); err != nil {
		t.Fatal(err)
	}
	b.report("b1", 5, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
	w.await("the newest", func(s state) bool { return slices.Equal(s.tags, []string{"leader"}) })
	before := w.index()
	a.report("b1", 4, controlv1.Role_ROLE_FOLLOWER, controlv1.Health_HEALTH_HEALTHY)
	for n := range uint64(20) {
		b.report("b1", 6+n, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
	}
	a.settled(w)
	b.settled(w)
	if got := w.state(); !slices.Equal(got.tags, []string{"leader"}) || w.index() != before {
		t.Errorf("%+v; index %d, was %d", got, w.index(), before)
	}
}

// settled waits until no Slot is due.
func (c *one) settled(w *world) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	if err := c.writer.Idle(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// A node with an ID belongs to a Consul agent, so the Writer leaves it unchanged.
func TestAnAgentsNodeIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.admit("b1")
	if _, err := w.admin.Catalog().Register(&consul.CatalogRegistration{Node: slot, ID: "11111111-2222-8333-8444-555555555555", Address: vip}, nil); err != nil {
		t.Fatal(err)
	}
	c := w.coordinator(true)
	if err := c.writer.Register(t.Context(), "pg", slot, "b1", vip); err != nil {
		t.Error(err)
	}
	if err := c.writer.Remove(t.Context(), slot, "b1"); err != nil {
		t.Fatal(err)
	}
	nodes, _, err := w.admin.Catalog().Nodes(nil)
	if err != nil || !slices.ContainsFunc(nodes, func(n *consul.Node) bool { return n.Node == slot && n.ID != "" }) || w.state().there {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
}
