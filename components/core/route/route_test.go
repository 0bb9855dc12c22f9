package route_test

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cadre.dev/core/group"
	"cadre.dev/core/route"
)

// cluster is a database with two routes, with groups that call it and groups that do not.
func cluster() map[string]group.Spec {
	return map[string]group.Spec{
		"postgres": {
			Name: "postgres", Workload: group.Workload{Kind: group.WorkloadPatroni},
			Backends: []group.Backend{{Name: "postgres", Port: 5432, Allow: []string{"webdemo", "app", "app"}}, {Name: "rest", Port: 8008, Allow: []string{"app"}}},
			Routes: []group.Route{
				{Name: "postgres-replica", Backend: "postgres", Role: "follower"},
				{Name: "postgres-master", Backend: "postgres", Role: "leader", Pooler: "pgbouncer"},
			},
		},
		"webdemo": {
			Name:     "webdemo",
			Backends: []group.Backend{{Name: "web", Port: 8080, Address: group.LoopbackAddress, Allow: []string{"webdemo"}}},
			Routes:   []group.Route{{Name: "webdemo", Backend: "web"}},
		},
		"app":  {Name: "app"},
		"idle": {Name: "idle", Backends: []group.Backend{{Name: "x", Port: 90}}, Routes: []group.Route{{Name: "lonely", Backend: "x"}}},
	}
}

func decide(t testing.TB, k route.Known) route.Decided {
	t.Helper()
	got, err := route.Decide(k)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestDecide(t *testing.T) {
	got := decide(t, route.Known{Specs: cluster()})
	proxies := func(name string) (out []string) {
		for _, p := range got.ServiceMeshes[name].Proxies {
			out = append(out, p.ID)
		}
		return out
	}
	for name, want := range map[string][]string{
		// rest has no route, so no proxy; members of postgres call nothing.
		"postgres": {"postgres-postgres-sidecar-proxy"},
		"webdemo":  {"webdemo-sidecar-proxy", "webdemo-web-sidecar-proxy"},
		"app":      {"app-sidecar-proxy"},
		"idle":     {"idle-x-sidecar-proxy"},
	} {
		if !slices.Equal(proxies(name), want) {
			t.Errorf("proxies of %s: %v, want %v", name, proxies(name), want)
		}
	}
	routes := got.ServiceMeshes["app"].Routes
	if len(routes) != 2 || routes[0].Name != "postgres-master" || routes[1].Name != "postgres-replica" {
		t.Fatalf("routes of app: %+v", routes)
	}
	master, replica := routes[0], routes[1]
	if master.Port != 5432 || master.Service != "postgres-postgres" || master.Role != "leader" || !route.Space.Contains(master.VIP) {
		t.Errorf("postgres-master: %+v", master)
	}
	if !master.Moves() || master.Behind() == master.VIP || master.Behind().As4()[1] != 11 {
		t.Errorf("a route with a pooler has Envoy behind it: %s, %s", master.VIP, master.Behind())
	}
	if replica.Moves() || replica.Behind() != replica.VIP {
		t.Errorf("a route with nothing in front of it is Envoy's: %+v", replica)
	}
	if len(got.Routes) != 4 || got.Routes["webdemo"].Group != "webdemo" {
		t.Errorf("records: %+v", got.Routes)
	}
}

// TestCallers: a group without permission finds neither a route nor an intention.
func TestCallers(t *testing.T) {
	got := decide(t, route.Known{Specs: cluster()})
	for _, s := range got.Config.Services {
		switch s.Name {
		case "postgres-postgres":
			if !slices.Equal(s.Callers, []string{"app", "webdemo"}) {
				t.Errorf("callers: %v", s.Callers)
			}
			want := map[string]string{"any": "", "leader": `"leader" in Service.Tags`, "follower": `"follower" in Service.Tags`}
			if !maps.Equal(s.Subsets, want) {
				t.Errorf("subsets: %v", s.Subsets)
			}
		case "idle-x":
			if len(s.Callers) != 0 {
				t.Errorf("nobody is allowed, and %v may call", s.Callers)
			}
		}
	}
	if len(got.ServiceMeshes["idle"].Routes)+len(got.ServiceMeshes["postgres"].Routes) != 0 {
		t.Error("who is not named by allow has routes")
	}
	if want := (route.Redirect{Route: "postgres-master", Service: "postgres-postgres", Subset: "leader"}); !slices.Contains(got.Config.Routes, want) {
		t.Errorf("redirects: %+v", got.Config.Routes)
	}
}

// TestPoolerUsersNeedTheCallersWord: the author of a route names secrets of other groups, and
// receives only the secrets that their groups allow.
func TestPoolerUsersNeedTheCallersWord(t *testing.T) {
	specs := cluster()
	postgres := specs["postgres"]
	postgres.Routes[1].PoolerUsers = map[string]string{"app": "app-password", "report": "report-password", "anyone": ""}
	specs["app"] = group.Spec{Name: "app", Secrets: []group.Secret{
		{Name: "app-password", PoolerRoutes: []string{"ledger-master", "postgres-master"}}, {Name: "report-password", PoolerRoutes: []string{"postgres-replica"}},
	}}
	got := decide(t, route.Known{Specs: specs})
	for caller, want := range map[string][2]map[string]string{
		"app":     {{"app": "app-password", "anyone": ""}, {"report": "report-password"}},
		"webdemo": {{"anyone": ""}, {"app": "app-password", "report": "report-password"}},
	} {
		r := got.ServiceMeshes[caller].Routes[0]
		if !maps.Equal(r.PoolerUsers, want[0]) || !maps.Equal(r.PoolerRefused, want[1]) {
			t.Errorf("%s: %v, refused %v", caller, r.PoolerUsers, r.PoolerRefused)
		}
	}
}

// TestAddressesAndPortsStay: addresses and ports stay through every edit that leaves their owners,
// and an address also when its route is gone.
func TestAddressesAndPortsStay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := route.Known{Specs: map[string]group.Spec{}, Routes: map[string]route.Record{}, ServiceMeshes: map[string]group.ServiceMesh{}}
		vips, ports := map[string]netip.Addr{}, map[string]int{}
		for range rapid.IntRange(1, 6).Draw(rt, "edits") {
			k.Specs = drawSpecs(rt)
			got, err := route.Decide(k)
			if err != nil {
				rt.Fatal(err)
			}
			again, err := route.Decide(k)
			if err != nil || !reflect.DeepEqual(got, again) {
				rt.Fatal("two decisions about one thing differ")
			}
			maps.Copy(k.Routes, got.Routes)
			used := map[netip.Addr]string{}
			for name, r := range k.Routes {
				if err := r.Check(name); err != nil {
					rt.Fatal(err)
				}
				if before, had := vips[name]; had && before != r.VIP {
					rt.Fatalf("route %s moved from %s to %s", name, before, r.VIP)
				}
				if other, twice := used[r.VIP]; twice {
					rt.Fatalf("%s and %s share %s", name, other, r.VIP)
				}
				vips[name], used[r.VIP] = r.VIP, name
			}
			next := map[string]int{}
			for g, mesh := range got.ServiceMeshes {
				seen := map[int]bool{}
				for _, p := range mesh.Proxies {
					if p.Calls() {
						continue
					}
					key := g + "/" + p.Service
					if before, had := ports[key]; had && before != p.Port {
						rt.Fatalf("port of %s moved from %d to %d", key, before, p.Port)
					}
					if seen[p.Port] || p.Port < group.FirstProxyPort || p.Port > group.LastProxyPort {
						rt.Fatalf("port %d of %s", p.Port, key)
					}
					seen[p.Port], next[key] = true, p.Port
				}
			}
			k.ServiceMeshes, ports = got.ServiceMeshes, next
			settled, err := route.Decide(k)
			if err != nil || len(settled.Routes) != 0 || !reflect.DeepEqual(settled.ServiceMeshes, got.ServiceMeshes) {
				rt.Fatal("what was written is to be written again")
			}
		}
	})
}

func drawSpecs(rt *rapid.T) map[string]group.Spec {
	names := []string{"a", "b", "c"}
	out := map[string]group.Spec{}
	for _, name := range names {
		if !rapid.Bool().Draw(rt, "there") {
			continue
		}
		spec := group.Spec{Name: name}
		for i, b := range []string{"x", "y"} {
			if rapid.Bool().Draw(rt, "backend") {
				spec.Backends = append(spec.Backends, group.Backend{Name: b, Port: 80 + i, Allow: rapid.SliceOf(rapid.SampledFrom(names)).Draw(rt, "allow")})
				for range rapid.IntRange(0, 2).Draw(rt, "routes") {
					spec.Routes = append(spec.Routes, group.Route{Name: name + "r" + rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "route") + b, Backend: b})
				}
			}
		}
		spec.Routes = slices.CompactFunc(spec.Routes, func(a, b group.Route) bool { return a.Name == b.Name })
		out[name] = spec
	}
	return out
}

func TestConflicts(t *testing.T) {
	others := cluster()
	spec := group.Spec{
		Name:     "other",
		Backends: []group.Backend{{Name: "b", Port: 1, Registration: group.Registration{Parent: "postgres-postgres"}}, {Name: "fine", Port: 2}},
		Routes:   []group.Route{{Name: "postgres-master", Backend: "b"}, {Name: "app", Backend: "b"}, {Name: "other", Backend: "b"}, {Name: "coordinator", Backend: "b"}},
	}
	var paths []string
	for _, p := range route.Conflicts(spec, others) {
		paths = append(paths, p.Path)
		if !strings.Contains(p.Message, "already") || p.Rule != "NAME_TAKEN" {
			t.Errorf("%+v", p)
		}
	}
	if want := []string{`backend["b"]`, `route["postgres-master"]`, `route["app"]`, `route["coordinator"]`}; !slices.Equal(paths, want) {
		t.Errorf("conflicts at %v, want %v", paths, want)
	}
	for name, one := range others {
		if found := route.Conflicts(one, others); len(found) != 0 {
			t.Errorf("%s conflicts with its own cluster: %v", name, found)
		}
	}
	if found := route.Conflicts(group.Spec{Name: "postgres-master"}, others); len(found) != 1 || found[0].Path != "name" {
		t.Errorf("a group with the name of a route: %v", found)
	}
}
