package route_test

import (
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cadre.dev/core/group"
	"cadre.dev/core/route"
)

// settled is the known state once all records of the specs are written.
func settled(t testing.TB, specs map[string]group.Spec) route.Known {
	t.Helper()
	got := decide(t, route.Known{Specs: specs})
	return route.Known{Specs: specs, Accepted: map[string]uint64{}, Routes: got.Routes, ServiceMeshes: got.ServiceMeshes}
}

// without is k with records that cannot be read.
func without(k route.Known, specs, routes, meshes []string) (route.Known, route.Missing) {
	m := route.Missing{Specs: map[string]bool{}, Routes: map[string]bool{}, ServiceMeshes: map[string]bool{}}
	k.Specs, k.Routes, k.ServiceMeshes = maps.Clone(k.Specs), maps.Clone(k.Routes), maps.Clone(k.ServiceMeshes)
	for _, name := range specs {
		m.Specs[name] = true
		delete(k.Specs, name)
	}
	for _, name := range routes {
		m.Routes[name] = true
		delete(k.Routes, name)
	}
	for _, name := range meshes {
		m.ServiceMeshes[name] = true
		delete(k.ServiceMeshes, name)
	}
	return k, m
}

func callersOf(c route.Config, service string) []string {
	for _, s := range c.Services {
		if s.Name == service {
			return s.Callers
		}
	}
	return nil
}

func redirects(c route.Config) (out []string) {
	for _, r := range c.Routes {
		out = append(out, r.Route)
	}
	slices.Sort(out)
	return out
}

func names(m group.ServiceMesh) (out []string) {
	for _, r := range m.Routes {
		out = append(out, r.Name)
	}
	return out
}

// TestAPermissionEndsWhileARecordIsUnreadable: app loses its permission while one record cannot be
// read, and every other group keeps its own.
func TestAPermissionEndsWhileARecordIsUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		specs, routes, meshes []string
		// callers of postgres, and whose parts are not decided.
		callers []string
	}{
		"nothing":                      {callers: []string{"webdemo"}},
		"another route's address":      {routes: []string{"webdemo"}, callers: []string{"webdemo"}},
		"the route's own address":      {routes: []string{"postgres-master"}, callers: []string{"webdemo"}},
		"a stray route":                {routes: []string{"stray"}, callers: []string{"webdemo"}},
		"another group's part":         {meshes: []string{"webdemo"}, callers: []string{"webdemo"}},
		"the group's own part":         {meshes: []string{"postgres"}, callers: []string{"webdemo"}},
		"the part of who is to go":     {meshes: []string{"app"}, callers: []string{"webdemo"}},
		"another group's spec":         {specs: []string{"webdemo"}, callers: []string{"webdemo"}},
		"the spec of who is to go":     {specs: []string{"app"}, callers: []string{"webdemo"}},
		"all of another group's":       {specs: []string{"webdemo"}, meshes: []string{"webdemo"}, routes: []string{"webdemo"}, callers: []string{"webdemo"}},
		"all parts, and all addresses": {meshes: []string{"postgres", "webdemo", "app", "idle"}, routes: []string{"postgres-master", "postgres-replica", "webdemo", "lonely"}, callers: []string{"webdemo"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := settled(t, cluster())
			all.Specs["postgres"].Backends[0].Allow = []string{"webdemo"}
			k, m := without(all, c.specs, c.routes, c.meshes)
			got, err := route.DecidePartly(k, m)
			if err != nil {
				t.Error(err) // nothing is new
			}
			if has := callersOf(got.Config, "postgres-postgres"); !slices.Equal(has, c.callers) || got.Leaves("postgres-postgres") {
				t.Errorf("callers %v, want %v", has, c.callers)
			}
			if p := got.ServiceMeshes["postgres"].Proxies; !m.ServiceMeshes["postgres"] && (len(p) != 1 || !slices.Equal(p[0].Callers, c.callers)) {
				t.Errorf("the part names %+v", p)
			}
			if r := names(got.ServiceMeshes["app"]); len(r) != 0 {
				t.Errorf("app has %v", r)
			}
			for _, other := range []string{"webdemo", "idle"} {
				if want := all.ServiceMeshes[other]; !m.ServiceMeshes[other] && !reflect.DeepEqual(got.ServiceMeshes[other], want) {
					t.Errorf("%s has %+v, want %+v", other, got.ServiceMeshes[other], want)
				}
			}
			for _, r := range []string{"postgres-master", "postgres-replica", "webdemo", "lonely"} {
				if !slices.Contains(redirects(got.Config), r) && !got.Leaves(r) {
					t.Errorf("what Consul has of %s goes", r)
				}
			}
			for _, group := range c.meshes {
				if _, has := got.ServiceMeshes[group]; has {
					t.Errorf("the part of %s is written over", group)
				}
			}
			if len(got.Routes) != 0 {
				t.Errorf("addresses are written: %v", got.Routes)
			}
		})
	}
}

// TestNothingNewIsGivenThatAMissingRecordMayHave: an error reports it.
func TestNothingNewIsGivenThatAMissingRecordMayHave(t *testing.T) {
	for name, c := range map[string]struct {
		specs, routes, meshes []string
		before, edit          func(map[string]group.Spec)
		off                   []string // routes that are put off
		given                 []string // routes that get an address
	}{
		"an address may be that of a route":     {routes: []string{"stray"}, edit: another, off: []string{"other"}},
		"a name may be that of a group's route": {specs: []string{"idle"}, edit: another, off: []string{"other"}},
		"a port may be that of a service":       {meshes: []string{"app"}, edit: another, off: []string{"other"}},
		"another group's part has none of it":   {meshes: []string{"idle"}, edit: another, given: []string{"other"}},
		"whose the route is, a spec would tell": {specs: []string{"idle"}, before: another, off: []string{"lonely"}, edit: func(s map[string]group.Spec) {
			app := s["app"]
			app.Routes = append(app.Routes, group.Route{Name: "lonely", Backend: "a"})
			s["app"] = app
		}},
		"whose the route's service is, a spec would tell": {specs: []string{"idle"}, before: another, off: []string{"other"}, edit: func(s map[string]group.Spec) {
			s["app"].Backends[0].Name, s["app"].Routes[0].Backend = "b", "b"
		}},
		"the route's service is that of another": {meshes: []string{"app"}, before: another, off: []string{"other"}, edit: func(s map[string]group.Spec) {
			s["app"].Backends[0].Registration.Parent = "webdemo-web"
		}},
		"whose the service is, a part would tell": {meshes: []string{"idle"}, off: []string{"other"}, edit: func(s map[string]group.Spec) {
			another(s)
			s["app"].Backends[0].Registration.Parent = "idle-x"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			specs := cluster()
			if c.before != nil {
				c.before(specs)
			}
			all := settled(t, specs)
			c.edit(all.Specs)
			k, m := without(all, c.specs, c.routes, c.meshes)
			got, err := route.DecidePartly(k, m)
			if (err == nil) != (len(c.off) == 0) {
				t.Errorf("told: %v", err)
			}
			for _, r := range c.off {
				if slices.Contains(redirects(got.Config), r) || got.Routes[r].Route != "" || slices.Contains(names(got.ServiceMeshes["webdemo"]), r) {
					t.Errorf("%s is given: %+v", r, got.Decided)
				}
			}
			for _, r := range c.given {
				if !slices.Contains(redirects(got.Config), r) || !got.Routes[r].VIP.IsValid() || !slices.Contains(names(got.ServiceMeshes["webdemo"]), r) {
					t.Errorf("%s is not given: %+v", r, got.Decided)
				}
			}
		})
	}
}

// another has app declare a new route.
func another(s map[string]group.Spec) {
	app := s["app"]
	app.Backends, app.Routes = []group.Backend{{Name: "a", Port: 1, Allow: []string{"webdemo"}}}, []group.Route{{Name: "other", Backend: "a"}}
	s["app"] = app
}

// TestASpecThatCannotBeReadTakesNothing: its group's services stay, and permissions by other groups
// count.
func TestASpecThatCannotBeReadTakesNothing(t *testing.T) {
	all := settled(t, cluster())
	all.Specs["webdemo"].Backends[0].Allow = []string{"webdemo", "app", "postgres"} // not readable
	k, m := without(all, []string{"webdemo"}, nil, nil)
	got, err := route.DecidePartly(k, m)
	if err != nil || !reflect.DeepEqual(got.ServiceMeshes, all.ServiceMeshes) {
		t.Errorf("%+v, want %+v: %v", got.ServiceMeshes, all.ServiceMeshes, err)
	}
	if !got.Leaves("webdemo") || !got.Leaves("webdemo-web") || got.Leaves("postgres-postgres") || got.Leaves("old") {
		t.Error("what stays is not what the group has")
	}
	if slices.Contains(redirects(got.Config), "webdemo") || callersOf(got.Config, "webdemo-web") != nil {
		t.Errorf("decided without its spec: %+v", got.Config)
	}
	k, m = without(all, []string{"webdemo"}, nil, []string{"webdemo"})
	if got, _ := route.DecidePartly(k, m); !got.Leaves("old") || got.Leaves("postgres-postgres") {
		t.Error("nothing can be read of a group, and what may be its is taken away")
	}
}

// TestCallersKeepAnUnreadableAddress: an unreadable record of an address leaves the callers with the address that they
// already have.
func TestCallersKeepAnUnreadableAddress(t *testing.T) {
	all := settled(t, cluster())
	all.Specs["postgres"].Backends[0].Allow = []string{"webdemo", "app", "idle"}
	k, m := without(all, nil, []string{"postgres-master"}, nil)
	got, err := route.DecidePartly(k, m)
	if err != nil || len(got.Routes) != 0 {
		t.Errorf("records %v: %v", got.Routes, err)
	}
	vip := all.Routes["postgres-master"].VIP
	for _, name := range []string{"webdemo", "app", "idle"} {
		if r := got.ServiceMeshes[name].Routes; !slices.ContainsFunc(r, func(r group.RouteTo) bool { return r.Name == "postgres-master" && r.VIP == vip }) {
			t.Errorf("%s has %+v", name, r)
		}
	}
	// No member has an address: a new caller gets the route when the record can be read.
	all = settled(t, cluster())
	all.Specs["idle"].Backends[0].Allow = []string{"app"}
	k, m = without(all, nil, []string{"lonely"}, nil)
	got, err = route.DecidePartly(k, m)
	if err != nil || slices.Contains(names(got.ServiceMeshes["app"]), "lonely") || !slices.Equal(callersOf(got.Config, "idle-x"), []string{"app"}) {
		t.Errorf("%+v: %v", got.Decided, err)
	}
}

// TestPartlyNeverWidens, for any edits of specs and any missing records: a caller is allowed by a
// readable spec, or was allowed before while the spec cannot be read. No address is given twice or
// changes, and no part replaces a missing record.
func TestPartlyNeverWidens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		before := settled(t, drawSpecs(rt))
		after := before
		after.Specs = drawSpecs(rt)
		for name, spec := range before.Specs { // a spec that cannot be read is there
			if _, left := after.Specs[name]; !left && rapid.Bool().Draw(rt, "stays") {
				after.Specs[name] = spec
			}
		}
		k, m := without(after, some(rt, "specs", after.Specs), some(rt, "routes", before.Routes), some(rt, "meshes", before.ServiceMeshes))
		got, err := route.DecidePartly(k, m)
		if err != nil && !errors.Is(err, route.ErrDeferred) {
			rt.Fatal(err)
		}
		vips := map[netip.Addr]string{}
		for name, r := range before.Routes {
			vips[r.VIP] = name
		}
		for name, r := range got.Routes {
			if other, taken := vips[r.VIP]; m.Routes[name] || taken && other != name {
				rt.Fatalf("record of %s at %s, which is that of %q", name, r.VIP, other)
			}
			vips[r.VIP] = name
		}
		for name, mesh := range got.ServiceMeshes {
			if m.ServiceMeshes[name] || mesh.Check(name) != nil {
				rt.Fatalf("part of %s: %+v", name, mesh)
			}
			for _, r := range mesh.Routes {
				if vips[r.VIP] != r.Name {
					rt.Fatalf("%s has %s at %s", name, r.Name, r.VIP)
				}
				if !m.Specs[r.Group] && !allows(k.Specs[r.Group], r.Backend, name) || m.Specs[r.Group] && !slices.Contains(names(before.ServiceMeshes[name]), r.Name) {
					rt.Fatalf("%s may call %s", name, r.Name)
				}
			}
			for _, p := range mesh.Proxies {
				if m.Specs[name] && !p.Calls() && !slices.ContainsFunc(before.ServiceMeshes[name].Proxies, func(q group.Proxy) bool { return reflect.DeepEqual(p, q) }) {
					rt.Fatalf("the unreadable %s has %+v", name, p)
				}
			}
		}
		for _, s := range got.Config.Services {
			for _, caller := range s.Callers {
				if !slices.ContainsFunc(slices.Collect(maps.Values(k.Specs)), func(spec group.Spec) bool {
					return slices.ContainsFunc(spec.Backends, func(b group.Backend) bool { return spec.Service(b) == s.Name && slices.Contains(b.Allow, caller) })
				}) {
					rt.Fatalf("%s may call %s", caller, s.Name)
				}
			}
		}
		for name, mesh := range before.ServiceMeshes {
			for _, p := range mesh.Proxies {
				has := slices.ContainsFunc(got.Config.Services, func(s route.Service) bool { return s.Name == p.Service })
				if m.Specs[name] && !p.Calls() && (has || !got.Leaves(p.Service)) {
					rt.Fatalf("the entries of %s, of the unreadable %s, are changed", p.Service, name)
				}
			}
		}
	})
}

func some[V any](rt *rapid.T, what string, of map[string]V) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if rapid.IntRange(0, 3).Draw(rt, what) == 0 {
			out = append(out, name)
		}
	}
	return out
}

func allows(spec group.Spec, backend, caller string) bool {
	return slices.ContainsFunc(spec.Backends, func(b group.Backend) bool { return b.Name == backend && slices.Contains(b.Allow, caller) })
}

// TestAnUnreadableSpecKeepsItsSecretsWhereTheyWere: a caller whose spec cannot be read is let in
// as before, with no secret that it had not let the route have.
func TestAnUnreadableSpecKeepsItsSecretsWhereTheyWere(t *testing.T) {
	specs := cluster()
	specs["postgres"].Routes[1].PoolerUsers = map[string]string{"app": "app-password", "report": "report-password"}
	specs["app"] = group.Spec{Name: "app", Secrets: []group.Secret{{Name: "app-password", PoolerRoutes: []string{"postgres-master"}}}}
	k, m := without(settled(t, specs), []string{"app"}, nil, nil)
	got, err := route.DecidePartly(k, m)
	if err != nil {
		t.Fatal(err)
	}
	r := got.ServiceMeshes["app"].Routes[0]
	if !maps.Equal(r.PoolerUsers, map[string]string{"app": "app-password"}) || !maps.Equal(r.PoolerRefused, map[string]string{"report": "report-password"}) {
		t.Errorf("let %v, refused %v", r.PoolerUsers, r.PoolerRefused)
	}
	if !reflect.DeepEqual(got.ServiceMeshes["app"], k.ServiceMeshes["app"]) {
		t.Errorf("its part is written anew: %+v", got.ServiceMeshes["app"])
	}
}
