package routes_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/routes"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/route"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// world is a real Consul with accepted specs, and a leader.
type world struct {
	t      *testing.T
	server storetest.ConsulServer
	store  *store.Consul
	admin  *consul.Client
	writer *routes.Writer
	views  *view.Watcher
	log    warnings
	ahead  atomic.Int64 // offset of the writer's clock
	end    func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, server: storetest.StartConsulACL(t), log: warnings{slog.DiscardHandler, new(sync.Mutex), new([]string)}}
	var err error
	if w.store, err = store.NewConsul(store.ConsulConfig{Address: w.server.Addr, Token: w.server.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	if w.admin, err = consul.NewClient(&consul.Config{Address: w.server.Addr, Token: w.server.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	w.views = view.NewWatcher(w.store, slog.New(slog.DiscardHandler))
	w.writer, err = routes.New(routes.Config{
		Address: w.server.Addr, Token: w.server.ManagementToken, Store: w.store, Views: w.views,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }, Log: slog.New(w.log),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = w.views.Run(ctx) })
	t.Cleanup(func() { w.retire(); cancel(); running.Wait() })
	return w
}

// lead makes the writer lead in a new Term.
func (w *world) lead() {
	w.t.Helper()
	w.retire()
	lease, err := store.AcquireBlocking(w.t.Context(), w.store, "coordinator-0", func(error) {})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(lease.Context())
	var running sync.WaitGroup
	running.Go(func() { w.writer.Lead(ctx, lease) })
	w.end = func() {
		cancel()
		running.Wait()
		if err := lease.Release(context.WithoutCancel(w.t.Context())); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) retire() {
	if w.end != nil {
		w.end()
		w.end = nil
	}
}

func spec(name string) group.Spec {
	return group.Spec{
		Name: name, Platform: "phala", Replicas: 2,
		Template: group.Template{Compose: "services:\n  x:\n    image: example.org/x@sha256:" + strings.Repeat("a", 64) + "\n", InstanceType: "tdx.small", OSImage: "dstack-0.5.7"},
	}
}

func database(change func(*group.Spec)) group.Spec {
	s := spec("pg")
	s.Workload.Kind = group.WorkloadPatroni
	s.Backends = []group.Backend{{Name: "pg", Port: 5432, Allow: []string{"web"}}}
	s.Routes = []group.Route{{Name: "pg-master", Backend: "pg", Role: "leader"}}
	if change != nil {
		change(&s)
	}
	return s
}

func (w *world) accept(specs ...group.Spec) {
	w.t.Helper()
	for _, s := range specs {
		s.Normalize()
		if err := group.Validate(s); err != nil {
			w.t.Fatal(err)
		}
		raw, err := json.Marshal(s)
		if err != nil {
			w.t.Fatal(err)
		}
		w.put(store.GroupAcceptedKey(s.Name), store.AcceptedSpec{Group: s.Name, SpecIndex: 1, Spec: raw, Term: 1, At: time.Now()})
	}
}

func (w *world) put(key string, value any) {
	w.t.Helper()
	raw, err := json.Marshal(value)
	if err == nil {
		err = w.store.Commit(w.t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: raw})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(keys ...string) {
	w.t.Helper()
	var ops []store.Op
	for _, key := range keys {
		ops = append(ops, store.Op{Kind: store.OpDelete, Key: key})
	}
	if err := w.store.Commit(w.t.Context(), ops...); err != nil {
		w.t.Fatal(err)
	}
}

// await waits until ok, at each change of Consul's entries.
func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: never; entries %v", what, w.entries())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// entries returns Consul's entries as kind/name.
func (w *world) entries() (out []string) {
	w.t.Helper()
	for _, kind := range []string{consul.ServiceResolver, consul.ServiceIntentions} {
		list, _, err := w.admin.ConfigEntries().List(kind, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list {
			out = append(out, strings.TrimPrefix(kind, "service-")+"/"+e.GetName())
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) has(entries ...string) func() bool {
	slices.Sort(entries)
	return func() bool { return slices.Equal(w.entries(), entries) }
}

func (w *world) mesh(name string) (group.ServiceMesh, bool) {
	w.t.Helper()
	m, _, err := store.Read[group.ServiceMesh](w.t.Context(), w.store, store.ServiceMeshKey(name))
	return m, err == nil
}

// index of the last change of the keys and of the entries.
func (w *world) index() [3]uint64 {
	w.t.Helper()
	_, index, err := w.store.List(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	out := [3]uint64{index}
	for n, kind := range []string{consul.ServiceResolver, consul.ServiceIntentions} {
		list, _, err := w.admin.ConfigEntries().List(kind, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list {
			out[n+1] += e.GetModifyIndex()
		}
	}
	return out
}

// resolved returns Consul's resolution of a dialled name.
func (w *world) resolved(name string) (target, subset string) {
	w.t.Helper()
	chain, _, err := w.admin.DiscoveryChain().Get(name, nil, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, one := range chain.Chain.Targets {
		target, subset = one.Service, one.ServiceSubset
	}
	return target, subset
}

func (w *world) allowed(from, to string) bool {
	w.t.Helper()
	ok, _, err := w.admin.Connect().IntentionCheck(&consul.IntentionCheck{Source: from, Destination: to}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return ok
}

var declared = []string{"intentions/pg-pg", "resolver/pg-master", "resolver/pg-pg"}

// TestTheLifeOfARoute follows a route from its declaration to the end of its group.
func TestTheLifeOfARoute(t *testing.T) {
	w := newWorld(t)
	w.lead()
	w.accept(database(nil), spec("web"), spec("other"))
	w.await("declared", w.has(declared...))
	record, _, err := store.Read[route.Record](t.Context(), w.store, store.RouteKey("pg-master"))
	if err != nil || record.Group != "pg" || record.Term == 0 {
		t.Errorf("record %+v, %v", record, err)
	}
	server, _ := w.mesh("pg")
	caller, _ := w.mesh("web")
	if len(server.Proxies) != 1 || server.Proxies[0].Port != group.FirstProxyPort || len(caller.Routes) != 1 || caller.Routes[0].VIP != record.VIP {
		t.Errorf("meshes %+v and %+v", server, caller)
	}
	if _, has := w.mesh("other"); has {
		t.Error("a group without a part has a record")
	}
	if target, subset := w.resolved("pg-master"); target != "pg-pg" || subset != "leader" {
		t.Errorf("pg-master leads to %s/%s", target, subset)
	}
	if !w.allowed("web", "pg-pg") || w.allowed("other", "pg-pg") || w.allowed("pg", "pg-pg") {
		t.Error("other callers than the specs say")
	}

	// Every change of a route's role passes through an existing subset.
	for _, role := range []string{"follower", "", "leader"} {
		w.accept(database(func(s *group.Spec) { s.Routes[0].Role = role }))
		want := role
		if role == "" {
			want = "any"
		}
		w.await("role "+want, func() bool { _, subset := w.resolved("pg-master"); return subset == want })
	}

	// Without a permission the entry is removed, and the callers' part is empty.
	w.accept(database(func(s *group.Spec) { s.Backends[0].Allow = nil }))
	w.await("no group may call", func() bool { m, _ := w.mesh("web"); return len(m.Routes) == 0 && !w.allowed("web", "pg-pg") })
	w.await("without intentions", w.has("resolver/pg-master", "resolver/pg-pg"))

	w.accept(database(func(s *group.Spec) { s.Routes = nil }))
	w.await("no route", w.has())
	w.await("no part", func() bool { m, has := w.mesh("pg"); return has && len(m.Proxies) == 0 })

	// The group's entries are removed with its records, except the route's address.
	w.accept(database(nil))
	w.await("again", w.has(declared...))
	w.remove(store.GroupAcceptedKey("pg"), store.ServiceMeshKey("pg"))
	w.await("group gone", w.has())
	if again, _, err := store.Read[route.Record](t.Context(), w.store, store.RouteKey("pg-master")); err != nil || again.VIP != record.VIP {
		t.Errorf("address %+v, was %+v, %v", again, record, err)
	}
	if _, has := w.mesh("pg"); has {
		t.Error("the part of a group that is gone is back")
	}
}

// TestNothingIsWrittenWhileNothingChanges: this holds in this Term and in the next ones.
func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	w := newWorld(t)
	w.lead()
	w.accept(database(nil), spec("web"))
	w.await("declared", w.has(declared...))
	w.await("settled", func() bool {
		before := w.index()
		m, has := w.mesh("web")
		return has && len(m.Routes) == 1 && before == w.index()
	})
	before := w.index()
	w.await("looked", w.writer.Settled)
	for range 2 {
		w.lead() // compares everything
		w.await("looked again", w.writer.Settled)
	}
	after := w.index()
	if before[1] != after[1] || before[2] != after[2] {
		t.Errorf("entries were written: %v, then %v", before, after)
	}
	for _, name := range []string{"pg", "web"} {
		if m, _ := w.mesh(name); m.Term != 1 {
			t.Errorf("the part of %s was written again, in Term %d", name, m.Term)
		}
	}
}

// TestDriftHeals: foreign changes and removals are corrected after a while, and foreign entries
// stay.
func TestDriftHeals(t *testing.T) {
	w := newWorld(t)
	w.lead()
	w.retire()
	w.accept(database(nil), spec("web"))
	theirs := &consul.ServiceResolverConfigEntry{Kind: consul.ServiceResolver, Name: "theirs"}
	open := &consul.ServiceIntentionsConfigEntry{Kind: consul.ServiceIntentions, Name: "pg-pg", Meta: map[string]string{"managed-by": "cadre"}, Sources: []*consul.SourceIntention{{Name: "*", Action: consul.IntentionActionAllow}}}
	stray := &consul.ServiceIntentionsConfigEntry{Kind: consul.ServiceIntentions, Name: "old", Meta: map[string]string{"managed-by": "cadre"}, Sources: []*consul.SourceIntention{{Name: "web", Action: consul.IntentionActionAllow}}}
	drift := func() {
		t.Helper()
		for _, e := range []consul.ConfigEntry{theirs, open, stray} {
			if ok, _, err := w.admin.ConfigEntries().Set(e, nil); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		if _, err := w.admin.ConfigEntries().Delete(consul.ServiceResolver, "pg-master", nil); err != nil {
			t.Fatal(err)
		}
	}
	want := append([]string{"resolver/theirs"}, declared...)
	drift()
	w.lead()
	healed := func() bool { return w.writer.Settled() && w.has(want...)() }
	w.await("at a new term", healed)
	if w.allowed("other", "pg-pg") {
		t.Error("anybody may call")
	}
	drift()
	w.ahead.Store(int64(6 * time.Minute))
	w.put(store.OverrideKey(store.OverridePause, "pg"), store.Override{Reason: "x"}) // triggers a pass
	w.await("after a while", healed)
	if w.allowed("other", "pg-pg") {
		t.Error("anybody may call")
	}
}

// cache returns a group with its own route, which web and app may call.
func cache(change func(*group.Spec)) group.Spec {
	s := spec("cache")
	s.Backends = []group.Backend{{Name: "c", Port: 6379, Allow: []string{"web", "app"}}}
	s.Routes = []group.Route{{Name: "cache", Backend: "c"}}
	if change != nil {
		change(&s)
	}
	return s
}

// TestARecordThatCannotBeReadStopsNothingElse: a removed permission takes effect, whichever record
// is unreadable. The unreadable record is reported, the parts that may depend on it stay, and the
// names in it are not assigned to others.
func TestARecordThatCannotBeReadStopsNothingElse(t *testing.T) {
	odd := map[string]int{"odd": 1}
	for name, c := range map[string]struct {
		key string
		// repair makes it readable again; nil: it is deleted.
		repair func(w *world)
	}{
		"a route that no spec declares": {store.RouteKey("odd"), nil},
		"another route's address":       {store.RouteKey("pg-master"), nil},
		"another group's part":          {store.ServiceMeshKey("pg"), nil},
		"another group's spec":          {store.GroupAcceptedKey("pg"), func(w *world) { w.accept(database(nil)) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lead()
			w.accept(database(nil), cache(nil), spec("web"), spec("app"))
			all := append([]string{"intentions/cache-c", "resolver/cache", "resolver/cache-c"}, declared...)
			w.await("declared", w.has(all...))
			w.await("settled", w.writer.Settled)
			w.put(c.key, odd)
			w.await("it is reported", w.writer.Failing)
			w.accept(cache(func(s *group.Spec) { s.Backends[0].Allow = []string{"web"} }))
			w.await("app may not call", func() bool { return !w.allowed("app", "cache-c") })
			w.await("app has no route", func() bool {
				server, _ := w.mesh("cache")
				caller, _ := w.mesh("app")
				return slices.Equal(server.Proxies[0].Callers, []string{"web"}) && len(caller.Routes) == 0
			})
			w.await("settled", w.writer.Settled)
			if !w.allowed("web", "cache-c") || !w.allowed("web", "pg-pg") || w.allowed("app", "pg-pg") || !w.has(all...)() || !w.writer.Failing() {
				t.Errorf("something else changed: entries %v", w.entries())
			}
			caller, _ := w.mesh("web")
			if len(caller.Routes) != 2 {
				t.Errorf("web has %+v", caller.Routes)
			}
			if c.repair != nil {
				c.repair(w)
			} else {
				w.remove(c.key)
			}
			w.await("repaired", func() bool { return !w.writer.Failing() && w.writer.Settled() && w.has(all...)() })
		})
	}
}

// TestTheEarlierKeepsAName: of two accepted specs with one name the earlier keeps it, and the other
// is reported.
func TestTheEarlierKeepsAName(t *testing.T) {
	w := newWorld(t)
	w.lead()
	w.accept(database(nil), spec("web"))
	w.await("declared", w.has(declared...))
	thief := spec("thief")
	thief.Backends = []group.Backend{{Name: "x", Port: 80, Allow: []string{"web"}}}
	thief.Routes = []group.Route{{Name: "pg-master", Backend: "x"}}
	w.accept(thief)
	w.await("it is reported", w.writer.Failing)
	w.accept(database(func(s *group.Spec) { s.Meta = map[string]string{"a": "b"} })) // accepted later, and has the record
	w.await("settled", w.writer.Settled)
	if target, _ := w.resolved("pg-master"); target != "pg-pg" || !w.writer.Failing() {
		t.Errorf("pg-master leads to %s", target)
	}
	w.accept(database(func(s *group.Spec) { s.Routes[0].Name = "pg-leader" }))
	w.await("it is free", func() bool { target, _ := w.resolved("pg-master"); return target == "thief-x" && !w.writer.Failing() })
}
