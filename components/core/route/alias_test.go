package route_test

import (
	"reflect"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/route"
)

// pair is an original, a clone of it that gives its route the original's name, and a caller of each.
func pair() map[string]group.Spec {
	return map[string]group.Spec{
		"db":      {Name: "db", Backends: []group.Backend{{Name: "pg", Port: 5432, Allow: []string{"web"}}}, Routes: []group.Route{{Name: "db-master", Backend: "pg"}}},
		"web":     {Name: "web"},
		"two-db":  {Name: "two-db", Backends: []group.Backend{{Name: "pg", Port: 5432, Allow: []string{"two-web"}}}, Routes: []group.Route{{Name: "two-db-master", Alias: "db-master", Backend: "pg"}}},
		"two-web": {Name: "two-web"},
	}
}

func TestACloneDialsItsOwnRouteByTheNameOfTheOriginal(t *testing.T) {
	specs := pair()
	alone, err := route.Decide(route.Known{Specs: map[string]group.Spec{"db": specs["db"], "web": specs["web"]}})
	if err != nil {
		t.Fatal(err)
	}
	both, err := route.Decide(route.Known{Specs: specs, Routes: alone.Routes, ServiceMeshes: alone.ServiceMeshes})
	if err != nil {
		t.Fatal(err)
	}
	own, clone := both.ServiceMeshes["web"].Routes, both.ServiceMeshes["two-web"].Routes
	if !reflect.DeepEqual(own, alone.ServiceMeshes["web"].Routes) {
		t.Errorf("the original's caller has %+v", own)
	}
	if len(clone) != 1 || clone[0].Alias != "db-master" || clone[0].Service != "two-db-pg" || clone[0].VIP == own[0].VIP {
		t.Errorf("the clone's caller has %+v", clone)
	}
	for _, spec := range specs {
		if found := route.Conflicts(spec, specs); len(found) != 0 {
			t.Errorf("%s: %v", spec.Name, found)
		}
	}
}

func TestOneCallerHasOneRouteOfAName(t *testing.T) {
	specs := pair()
	clone := specs["two-db"]
	clone.Backends = []group.Backend{{Name: "pg", Port: 5432, Allow: []string{"two-web", "web"}}}
	specs["two-db"] = clone
	if found := route.Conflicts(clone, specs); len(found) != 1 || found[0].Path != `route["two-db-master"].alias` {
		t.Errorf("the clone: %v", found)
	}
	if found := route.Conflicts(specs["db"], specs); len(found) != 1 || found[0].Path != `route["db-master"]` {
		t.Errorf("the original: %v", found)
	}
	// The spec came in all the same, as a plain KV edit at the same time.
	got, err := route.Decide(route.Known{Specs: specs})
	if err == nil || !strings.Contains(err.Error(), "route two-db-master") {
		t.Errorf("reported %v", err)
	}
	for _, r := range got.ServiceMeshes["web"].Routes {
		if r.Alias != "" {
			t.Errorf("web has %+v", r)
		}
	}
	if r := got.ServiceMeshes["two-web"].Routes; len(r) != 1 || r[0].Alias != "db-master" {
		t.Errorf("another caller lost its alias: %+v", r)
	}
}

// A group that sorts first must not take an alias from a caller that dials it.
func TestAnAliasStaysWithTheRouteThatHasIt(t *testing.T) {
	specs := pair()
	before, err := route.Decide(route.Known{Specs: specs})
	if err != nil {
		t.Fatal(err)
	}
	specs["a-db"] = group.Spec{Name: "a-db", Backends: []group.Backend{{Name: "pg", Port: 1, Allow: []string{"two-web"}}}, Routes: []group.Route{{Name: "a-db-master", Alias: "db-master", Backend: "pg"}}}
	got, err := route.Decide(route.Known{Specs: specs, Routes: before.Routes, ServiceMeshes: before.ServiceMeshes})
	if err == nil {
		t.Error("two routes of one name are reported as none")
	}
	for _, r := range got.ServiceMeshes["two-web"].Routes {
		if want := map[string]string{"two-db-master": "db-master", "a-db-master": ""}[r.Name]; r.Alias != want {
			t.Errorf("%s has alias %q, want %q", r.Name, r.Alias, want)
		}
	}
}
