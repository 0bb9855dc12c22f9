package route_test

import (
	"net/netip"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/route"
)

// rival claims the database's route, and the name of its service.
func rival(known route.Known) route.Known {
	known.Specs["a-rival"] = group.Spec{
		Name:     "a-rival",
		Backends: []group.Backend{{Name: "x", Port: 80, Allow: []string{"app"}}, {Name: "y", Port: 81, Registration: group.Registration{Parent: "postgres-postgres"}, Allow: []string{"app"}}},
		Routes:   []group.Route{{Name: "postgres-master", Backend: "x"}, {Name: "stolen", Backend: "y"}, {Name: "app", Backend: "x"}, {Name: "own", Backend: "x"}},
	}
	return known
}

// TestANameHasOneHolder: the group with a record keeps the name, then the group that was accepted
// first has it. The errors report the other groups.
func TestANameHasOneHolder(t *testing.T) {
	decided, err := route.Decide(route.Known{Specs: cluster()})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		known  route.Known
		master string
	}{
		"by record, accepted last":  {route.Known{Specs: cluster(), Routes: decided.Routes, ServiceMeshes: decided.ServiceMeshes, Accepted: map[string]uint64{"a-rival": 1, "postgres": 9}}, "postgres-postgres"},
		"new, accepted first":       {route.Known{Specs: cluster(), Accepted: map[string]uint64{"a-rival": 9, "postgres": 1}}, "postgres-postgres"},
		"new, the rival was first":  {route.Known{Specs: cluster(), Accepted: map[string]uint64{"a-rival": 1, "postgres": 9}}, "a-rival-x"},
		"the record is the rival's": {route.Known{Specs: cluster(), Routes: map[string]route.Record{"postgres-master": {Route: "postgres-master", VIP: netip.MustParseAddr("127.10.0.1"), Group: "a-rival"}}, Accepted: map[string]uint64{"a-rival": 9, "postgres": 1}}, "a-rival-x"},
	} {
		got, err := route.Decide(rival(c.known))
		if err == nil || !strings.Contains(err.Error(), "postgres-master") || !strings.Contains(err.Error(), "route app") {
			t.Errorf("%s: told %v", name, err)
		}
		leads := map[string]string{}
		for _, r := range got.Config.Routes {
			if leads[r.Route] != "" {
				t.Errorf("%s: %s leads to two services", name, r.Route)
			}
			leads[r.Route] = r.Service
		}
		if leads["postgres-master"] != c.master || leads["app"] != "" || leads["own"] != "a-rival-x" {
			t.Errorf("%s: %v", name, leads)
		}
		seen := map[string]bool{}
		for _, s := range got.Config.Services {
			if seen[s.Name] {
				t.Errorf("%s: %s is two services", name, s.Name)
			}
			seen[s.Name] = true
		}
	}
}

// TestOnlyGroupsThatExistAreCallers: the name of another may be that of something else.
func TestOnlyGroupsThatExistAreCallers(t *testing.T) {
	specs := cluster()
	delete(specs, "webdemo")
	got := decide(t, route.Known{Specs: specs})
	for _, s := range got.Config.Services {
		if s.Name == "postgres-postgres" && strings.Join(s.Callers, " ") != "app" {
			t.Errorf("callers %v", s.Callers)
		}
	}
	if p := got.ServiceMeshes["postgres"].Proxies[0]; strings.Join(p.Callers, " ") != "app" {
		t.Errorf("proxy %+v", p)
	}
}
