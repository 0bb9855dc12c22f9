package catalog_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/catalog"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// mesh is a part with a backend of each owner and one route to call.
func mesh(change func(*group.ServiceMesh)) group.ServiceMesh {
	m := group.ServiceMesh{
		Group: "pg",
		Proxies: []group.Proxy{
			{ID: "pg-api-sidecar-proxy", Service: "pg-api", Backend: "api", Owner: group.OwnerWorkload, Port: 20001, LocalPort: 8080, Loopback: true},
			{ID: "pg-pg-sidecar-proxy", Service: "pg-pg", Backend: "pg", Owner: group.OwnerPlatform, Port: 20000, LocalPort: 5432},
			{ID: "pg-sidecar-proxy", Service: "pg"},
		},
		Routes: []group.RouteTo{{Name: "queue", Group: "queue", Backend: "q", Service: "queue-q", VIP: netip.MustParseAddr("127.10.0.2"), Port: 9090}},
	}
	if change != nil {
		change(&m)
	}
	return m
}

// reach waits until routes find the wanted instances, with a check at each change of the service.
func (w *world) reach(what, service string, connect bool, want func([]*consul.ServiceEntry) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	ask := w.admin.Health().Service
	if connect {
		ask = w.admin.Health().Connect
	}
	var index uint64
	for {
		list, meta, err := ask(service, "", false, (&consul.QueryOptions{WaitIndex: index, WaitTime: 10 * time.Second}).WithContext(ctx))
		if err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
		if want(list) {
			return
		}
		index = meta.LastIndex
	}
}

func as(status string, tags ...string) func([]*consul.ServiceEntry) bool {
	return func(list []*consul.ServiceEntry) bool {
		return len(list) == 1 && list[0].Checks.AggregatedStatus() == status && slices.Equal(slices.Sorted(slices.Values(list[0].Service.Tags)), tags)
	}
}

func (w *world) services() (out []string) {
	w.t.Helper()
	list, _, err := w.admin.Catalog().NodeServiceList(slot, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range list.Services {
		out = append(out, s.ID)
	}
	slices.Sort(out)
	return out
}

// say sends a report of a member whose backends' Envoys are live and whose caller proxy is down.
func (c *one) say(sequence uint64, role controlv1.Role, backends ...*controlv1.BackendState) {
	c.sayOf([]string{"pg-pg", "pg-api"}, sequence, role, backends...)
}

// sayOf sends a report in which only the Envoys of those services are live.
func (c *one) sayOf(live []string, sequence uint64, role controlv1.Role, backends ...*controlv1.BackendState) {
	checks := []*controlv1.CheckResult{{Name: "proxy:pg-sidecar-proxy", Health: controlv1.Health_HEALTH_UNHEALTHY, Informative: true}}
	for _, service := range live {
		checks = append(checks, &controlv1.CheckResult{Name: "proxy:" + group.ProxyOf(service), Health: controlv1.Health_HEALTH_HEALTHY})
	}
	c.reports.Put(slot, "b1", &controlv1.Report{
		Sequence: sequence, MemberKnown: true, Member: &controlv1.MemberView{Role: role, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true}, Backends: backends, Checks: checks,
	})
	c.writer.Note(slot)
}

// TestRoutesFindTheProxiesOfAMember follows the proxies of a member. One write gives the service and its proxy
// their role. A removed route removes its own service and ends no session.
func TestRoutesFindTheProxiesOfAMember(t *testing.T) {
	w := newWorld(t)
	put(w, store.ServiceMeshKey("pg"), mesh(nil))
	w.admit("b1")
	c := w.coordinator(true)
	if err := c.writer.Register(t.Context(), "pg", slot, "b1", vip); err != nil {
		t.Fatal(err)
	}
	session := w.newSession()

	c.say(1, controlv1.Role_ROLE_FOLLOWER)
	w.reach("follows", "pg-pg", true, as(consul.HealthPassing, "follower"))
	w.reach("follows", "pg-pg", false, as(consul.HealthPassing, "follower"))
	w.reach("said nothing", "pg-api", true, as(consul.HealthCritical))
	proxy, _, err := w.admin.Health().Connect("pg-pg", "", false, nil)
	if err != nil || proxy[0].Service.Port != 20000 || proxy[0].Service.Address != vip || proxy[0].Service.Proxy.LocalServiceAddress != vip || proxy[0].Service.Proxy.LocalServicePort != 5432 {
		t.Errorf("proxy %+v, %v", proxy[0].Service, err)
	}

	// Without its Envoy one backend is out of discovery, while its member stays.
	c.sayOf([]string{"pg-api"}, 2, controlv1.Role_ROLE_FOLLOWER, &controlv1.BackendState{Name: "api", Health: controlv1.Health_HEALTH_HEALTHY})
	w.reach("not to be reached", "pg-pg", true, as(consul.HealthCritical, "follower"))
	w.reach("the other is", "pg-api", true, as(consul.HealthPassing))
	w.reach("the member is", "pg", false, as(consul.HealthPassing, "follower"))
	c.say(3, controlv1.Role_ROLE_FOLLOWER)
	w.reach("to be reached again", "pg-pg", true, as(consul.HealthPassing, "follower"))

	before, _, _ := w.admin.Health().Connect("pg-pg", "", false, nil)
	c.say(4, controlv1.Role_ROLE_LEADER, &controlv1.BackendState{Name: "api", Health: controlv1.Health_HEALTH_HEALTHY, Tags: []string{"blue", "NOT A TAG"}})
	w.reach("leads", "pg-pg", true, as(consul.HealthPassing, "leader"))
	w.reach("it says that it is well", "pg-api", true, as(consul.HealthPassing, "blue"))
	var indices []uint64
	for _, name := range []string{"pg-pg", "pg-api"} {
		for _, ask := range []func(string, string, bool, *consul.QueryOptions) ([]*consul.ServiceEntry, *consul.QueryMeta, error){w.admin.Health().Service, w.admin.Health().Connect} {
			list, _, err := ask(name, "", false, nil)
			if err != nil {
				t.Fatal(err)
			}
			indices = append(indices, list[0].Service.ModifyIndex)
		}
	}
	if indices[0] == before[0].Service.ModifyIndex || len(slices.Compact(indices)) != 1 {
		t.Errorf("they were not written at once: %v", indices)
	}

	put(w, store.OperationKey("op"), operation.Operation{ID: "op", Group: "pg", Slot: slot, Phase: operation.Drained})
	w.reach("drains", "pg-pg", true, as(consul.HealthCritical, "leader"))
	w.reach("drains", "pg-api", true, as(consul.HealthCritical, "blue"))
	put(w, store.OperationKey("op"), operation.Operation{ID: "op", Group: "pg", Slot: slot, Phase: operation.Aborted})
	w.reach("back", "pg-api", true, as(consul.HealthPassing, "blue"))

	// The caller proxies have their upstreams, which follow the routes.
	calls := func() []consul.Upstream {
		list, _, err := w.admin.Catalog().Service("pg-sidecar-proxy", "", nil)
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].ServiceProxy.Upstreams
	}
	if got := calls(); len(got) != 1 || got[0].DestinationName != "queue" || got[0].LocalBindAddress != "127.10.0.2" || got[0].LocalBindPort != 9090 {
		t.Errorf("upstreams %+v", got)
	}
	put(w, store.ServiceMeshKey("pg"), mesh(func(m *group.ServiceMesh) {
		m.Routes = append(m.Routes, group.RouteTo{Name: "store", Group: "store", Backend: "s", Service: "store-s", VIP: netip.MustParseAddr("127.10.0.3"), Port: 9091, Hold: group.Duration(time.Second), Role: "leader"})
	}))
	w.reach("another route", "pg-sidecar-proxy", false, func([]*consul.ServiceEntry) bool {
		got := calls()
		return len(got) == 2 && got[1].DestinationName == "store" && got[1].LocalBindAddress == "127.11.0.3"
	})

	put(w, store.ServiceMeshKey("pg"), mesh(func(m *group.ServiceMesh) { m.Proxies, m.Routes = m.Proxies[1:2], nil }))
	w.reach("routes went", "pg-api", true, func(list []*consul.ServiceEntry) bool { return len(list) == 0 })
	c.settled(w)
	if got := w.services(); !slices.Equal(got, []string{"pg", "pg-pg", "pg-pg-sidecar-proxy"}) || !w.alive(session) {
		t.Errorf("services %v, session lives: %v", got, w.alive(session))
	}
	if err := w.store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.ServiceMeshKey("pg"), Value: []byte(`{"odd":1}`)}); err != nil {
		t.Fatal(err)
	}
	c.say(5, controlv1.Role_ROLE_FOLLOWER)
	w.reach("follows, though the part cannot be read", "pg-pg", true, as(consul.HealthPassing, "follower"))

	w.unlock()
	w.reach("silent", "pg-pg", true, as(consul.HealthCritical))
	if err := c.writer.Remove(t.Context(), slot, "b1"); err != nil {
		t.Fatal(err)
	}
	w.reach("evicted", "pg-pg", true, func(list []*consul.ServiceEntry) bool { return len(list) == 0 })
}

// Reports without a change write nothing for the proxies either.
func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	w := newWorld(t)
	put(w, store.ServiceMeshKey("pg"), mesh(nil))
	w.admit("b1")
	a, b := w.coordinator(true), w.coordinator(false)
	for _, c := range []*one{a, b} {
		c.say(1, controlv1.Role_ROLE_LEADER)
	}
	w.reach("leads", "pg-pg", true, as(consul.HealthPassing, "leader"))
	w.reach("calls", "pg-sidecar-proxy", false, func(list []*consul.ServiceEntry) bool { return len(list) == 1 })
	a.settled(w)
	b.settled(w)
	before := w.index()
	third := w.coordinator(true) // a coordinator without any knowledge of the catalog
	for n := range uint64(5) {
		for _, c := range []*one{a, b, third} {
			c.say(2+n, controlv1.Role_ROLE_LEADER)
			c.settled(w)
		}
	}
	if now := w.index(); now != before {
		t.Errorf("index %d, was %d", now, before)
	}
}

// A foreign service makes the Writer replace the node. A service of ours that is wanted no more is
// removed alone.
func TestServicesOfOthersOnANode(t *testing.T) {
	w := newWorld(t)
	w.admit("b1")
	c := w.coordinator(true)
	if err := c.writer.Register(t.Context(), "pg", slot, "b1", vip); err != nil {
		t.Fatal(err)
	}
	session := w.newSession()
	add := func(id string, meta map[string]string) {
		t.Helper()
		if _, err := w.admin.Catalog().Register(&consul.CatalogRegistration{Node: slot, Address: vip, SkipNodeUpdate: true, Service: &consul.AgentService{ID: id, Service: id, Meta: meta}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(list []*consul.ServiceEntry) bool { return len(list) == 0 }
	add("left", map[string]string{catalog.MetaBoot: "b1"})
	c.say(1, controlv1.Role_ROLE_LEADER)
	w.reach("ours goes", "left", false, gone)
	if !w.alive(session) {
		t.Error("and a session with it")
	}
	add("foreign", nil)
	c.say(2, controlv1.Role_ROLE_FOLLOWER)
	w.reach("theirs goes", "foreign", false, gone)
	if w.alive(session) {
		t.Error("the node was not replaced")
	}
}

// A mesh that exceeds one transaction is complete in the end.
func TestMoreThanOneTransactionTakes(t *testing.T) {
	w := newWorld(t)
	big := group.ServiceMesh{Group: "pg"}
	for n := range 70 {
		service := fmt.Sprintf("pg-b%02d", n)
		big.Proxies = append(big.Proxies, group.Proxy{ID: group.ProxyOf(service), Service: service, Backend: fmt.Sprintf("b%02d", n), Owner: group.OwnerPlatform, Port: 20000 + n, LocalPort: 1000 + n})
	}
	put(w, store.ServiceMeshKey("pg"), big)
	w.admit("b1")
	c := w.coordinator(true)
	c.sayOf([]string{"pg-b69"}, 1, controlv1.Role_ROLE_LEADER)
	w.reach("the last one", "pg-b69", true, as(consul.HealthPassing, "leader"))
	c.settled(w)
	if got := w.services(); len(got) != 141 {
		t.Errorf("%d services", len(got))
	}
	put(w, store.ServiceMeshKey("pg"), group.ServiceMesh{Group: "pg"})
	w.reach("all gone", "pg-b69", false, func(list []*consul.ServiceEntry) bool { return len(list) == 0 })
	c.settled(w)
	if got := w.services(); !slices.Equal(got, []string{"pg"}) {
		t.Errorf("services %v", got)
	}
}
