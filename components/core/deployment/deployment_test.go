package deployment_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
	"cadre.dev/core/route"
)

const compose = "services:\n  app:\n    image: nginx@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"

func shop() deployment.Document {
	template := group.Template{Compose: compose, InstanceType: "tdx.small", OSImage: "dstack-0.5.7"}
	return deployment.Document{
		Name: "shop", Labels: map[string]string{"team": "sales"},
		Groups: []group.Spec{{
			Name: "postgres", Platform: "phala", AppID: strings.Repeat("a", 40), Replicas: 3, Without: []string{"postgres-1"}, Template: template,
			Backends:          []group.Backend{{Name: "pg", Port: 5432, Allow: []string{"shop-web", "grafana"}, Registration: group.Registration{Parent: "ledger"}}},
			Routes:            []group.Route{{Name: "postgres-master", Backend: "pg"}},
			ConsulPermissions: group.ConsulPermissions{KeyPrefixes: []string{"service/postgres/"}},
			Instances:         []group.InstanceSettings{{Ordinal: 0, PinnedRevision: strings.Repeat("b", 32), InstanceType: "tdx.large"}},
		}, {
			Name: "shop-web", Platform: "phala", Replicas: 2, Template: template,
			Placement: group.Placement{With: []string{"postgres"}, NotWith: []string{"grafana"}},
			Secrets:   []group.Secret{{Name: "db", PoolerRoutes: []string{"postgres-master", "elsewhere"}}},
			Backends:  []group.Backend{{Name: "http", Port: 80, Allow: []string{"postgres"}}},
			Routes:    []group.Route{{Name: "web", Backend: "http"}},
		}},
	}
}

func TestACloneNamesNothingOfItsOriginal(t *testing.T) {
	original := shop()
	got, err := deployment.Clone(original, "shop-staging", "replicas=1", "web.replicas=2", "web.template.env.LEVEL=1")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(original, shop()) {
		t.Fatal("the clone changed its original")
	}
	pg, web := got.Groups[0], got.Groups[1]
	for what, pair := range map[string][2]any{
		"groups":       {pg.Name + " " + web.Name, "shop-staging-postgres shop-staging-web"},
		"replicas":     {[]int{pg.Replicas, web.Replicas}, []int{1, 2}},
		"app":          {pg.AppID, ""},
		"without":      {pg.Without, []string{"shop-staging-postgres-1"}},
		"allow":        {pg.Backends[0].Allow, []string{"shop-staging-web"}},
		"parent":       {pg.Backends[0].Registration.Parent, "shop-staging-ledger"},
		"route":        {pg.Routes[0], group.Route{Name: "shop-staging-postgres-master", Alias: "postgres-master", Backend: "pg"}},
		"keys":         {pg.ConsulPermissions.KeyPrefixes, []string{"service/shop-staging-postgres/"}},
		"pins":         {pg.Instances[0].PinnedRevision, ""},
		"own size":     {pg.Instances[0].InstanceType, "tdx.large"},
		"with":         {web.Placement.With, []string{"shop-staging-postgres"}},
		"not with":     {len(web.Placement.NotWith), 0},
		"pooler route": {web.Secrets[0].PoolerRoutes, []string{"shop-staging-postgres-master"}},
		"env":          {web.Template.Env, map[string]string{"LEVEL": "1"}},
		"labels":       {got.Labels, original.Labels},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	again, err := deployment.Clone(got, "dev")
	if err != nil || again.Groups[0].Name != "dev-postgres" || !reflect.DeepEqual(again.Groups[0].Routes[0], group.Route{Name: "dev-postgres-master", Alias: "postgres-master", Backend: "pg"}) {
		t.Errorf("a clone of the clone: %+v, %v", again, err)
	}
}

// TestACloneNamesEachGroupOnce: the clone leaves the original's name out of the groups' names, and no setting could part them.
func TestACloneNamesEachGroupOnce(t *testing.T) {
	d := shop()
	d.Groups = append(d.Groups, group.Spec{Name: "web", Replicas: 1})
	if _, err := deployment.Clone(d, "dev"); err == nil || !strings.Contains(err.Error(), "groups shop-web and web of deployment shop: both would be dev-web") {
		t.Errorf("got %v", err)
	}
}

// TestACloneChangesNoRouteOfItsOriginal compares the whole service layer of the original before and after.
func TestACloneChangesNoRouteOfItsOriginal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "shop-b", "c"}
		d := deployment.Document{Name: "shop"}
		for _, name := range names {
			spec := group.Spec{Name: name, Replicas: 1}
			for i := range rapid.IntRange(0, 2).Draw(rt, "backends") {
				b := fmt.Sprintf("b%d", i)
				spec.Backends = append(spec.Backends, group.Backend{Name: b, Port: 80 + i, Allow: rapid.SliceOfDistinct(rapid.SampledFrom(append(names, "outside")), rapid.ID).Draw(rt, "allow")})
				spec.Routes = append(spec.Routes, group.Route{Name: name + "-" + b + "-r", Backend: b})
			}
			d.Groups = append(d.Groups, spec)
		}
		clone, err := deployment.Clone(d, rapid.SampledFrom([]string{"aa", "shop-x", "z"}).Draw(rt, "to"))
		if err != nil {
			rt.Fatal(err)
		}
		specs := map[string]group.Spec{"outside": {Name: "outside"}}
		for _, s := range d.Groups {
			specs[s.Name] = s
		}
		before, err := route.Decide(route.Known{Specs: specs})
		if err != nil {
			rt.Fatal(err)
		}
		for _, s := range clone.Groups {
			specs[s.Name] = s
		}
		for _, s := range specs {
			if found := route.Conflicts(s, specs); len(found) != 0 {
				rt.Fatalf("%s: %v", s.Name, found)
			}
		}
		after, err := route.Decide(route.Known{Specs: specs, Routes: before.Routes, ServiceMeshes: before.ServiceMeshes})
		if err != nil {
			rt.Fatal(err)
		}
		for name, mesh := range before.ServiceMeshes {
			if !reflect.DeepEqual(after.ServiceMeshes[name], mesh) {
				rt.Fatalf("%s: %+v, before %+v", name, after.ServiceMeshes[name], mesh)
			}
		}
		for i, s := range clone.Groups {
			dials := func(r group.RouteTo) string { return r.Alias }
			if original := d.Groups[i].Name; len(after.ServiceMeshes[original].Routes) != len(after.ServiceMeshes[s.Name].Routes) {
				rt.Fatalf("%s dials %v", s.Name, after.ServiceMeshes[s.Name].Routes)
			}
			for _, r := range after.ServiceMeshes[s.Name].Routes {
				if !slices.ContainsFunc(before.ServiceMeshes[d.Groups[i].Name].Routes, func(o group.RouteTo) bool { return o.Name == dials(r) }) {
					rt.Fatalf("%s dials %+v", s.Name, r)
				}
			}
		}
	})
}

func TestSetRefusesWhatIsNoField(t *testing.T) {
	for _, text := range []string{"replicas", "=1", "web.=1", "replica=1", "web.name=x", "replicas=many", "backend.port=1", "web.without.x=1"} {
		if _, err := deployment.Clone(shop(), "other", text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	if _, err := deployment.Clone(shop(), "other", "replica=1", "web.name=x"); err == nil || !strings.Contains(err.Error(), "replica=1") || !strings.Contains(err.Error(), "web.name=x") {
		t.Errorf("not all wrong settings are reported: %v", err)
	}
	if _, err := deployment.Clone(shop(), "other", "wbe.replicas=1"); err == nil || !strings.Contains(err.Error(), `neither a group "wbe" nor a field of this name; the groups are `) || !strings.Contains(err.Error(), "web") {
		t.Errorf("a misspelt group: %v", err)
	}
}

func TestAllProblemsOfADocumentAreReported(t *testing.T) {
	d := shop()
	d.Name, d.Labels = "Shop", map[string]string{"Team": strings.Repeat("x", 64)}
	d.Groups[0].Replicas = -1
	d.Groups[1].Routes[0].Name = "postgres-master"
	d.Groups = append(d.Groups, d.Groups[1])
	var paths []string
	for _, p := range deployment.Validate(d, nil, map[string][]string{}) {
		paths = append(paths, p.Path)
	}
	for _, want := range []string{
		"name", `labels["Team"]`, `group["shop-web"]`, `group["postgres"].replicas`, `group["postgres"].backend["pg"].allow[1]`,
		`group["shop-web"].placement.not_with[0]`, `group["shop-web"].route["postgres-master"]`,
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("%s is not reported: %v", want, paths)
		}
	}
	if found := deployment.Validate(shop(), nil, map[string][]string{"grafana": nil}); len(found) != 0 {
		t.Errorf("the good document: %v", found)
	}
	if found := deployment.Validate(deployment.Document{Name: "x"}, nil, nil); len(found) != 1 || found[0].Path != "group" {
		t.Errorf("without a group: %v", found)
	}
}

func TestVersions(t *testing.T) {
	r := deployment.Record{Name: "shop"}
	if _, err := r.Before(); err == nil {
		t.Error("an undo without a version")
	}
	of := func(content string) deployment.Version {
		return deployment.Version{Groups: map[string]string{"web": deployment.Digest([]byte(content))}}
	}
	for i := range deployment.MaxVersions + 5 {
		r = r.Append(of(fmt.Sprint(i)))
	}
	present, _ := r.Present()
	before, err := r.Before()
	if err != nil || len(r.Versions) != deployment.MaxVersions || present.Number != deployment.MaxVersions+5 || before.Number != present.Number-1 {
		t.Errorf("%d versions, present %d, before %d: %v", len(r.Versions), present.Number, before.Number, err)
	}
	if r.Refers(deployment.Digest([]byte("0"))) || !r.Refers(deployment.Digest([]byte("20"))) {
		t.Error("the kept versions refer to the kept specs")
	}
	// After an undo, "back" may mean forth again or further back.
	before.Of = before.Number
	r = r.Append(before)
	if _, err := r.Before(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("--to %d", present.Number)) || !strings.Contains(err.Error(), fmt.Sprintf("--to %d", before.Number-1)) {
		t.Errorf("an undo of the undo: %v", err)
	}
	text, err := json.Marshal(r)
	if err != nil || len(text) > 8<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
