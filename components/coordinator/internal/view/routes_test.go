package view_test

import (
	"slices"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/route"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

const (
	goodRoute = `{"route":"pg-master","vip":"127.10.1.2","group":"pg"}`
	goodMesh  = `{"group":"pg","proxies":[{"id":"pg-pg-sidecar-proxy","service":"pg-pg","backend":"pg","port":20003,"local_port":5432}]}`
)

// TestRecordsThatCannotBeReadAreMissing: an unreadable record is neither trusted nor taken for an
// absent one. The other records are known.
func TestRecordsThatCannotBeReadAreMissing(t *testing.T) {
	good := func() map[string]string {
		return map[string]string{store.RouteKey("pg-master"): goodRoute, store.ServiceMeshKey("pg"): goodMesh, store.GroupAcceptedKey("pg"): accepted(t, "pg")}
	}
	missing := func(m route.Missing) (out []string) {
		for what, of := range map[string]map[string]bool{"spec ": m.Specs, "route ": m.Routes, "mesh ": m.ServiceMeshes} {
			for name := range of {
				out = append(out, what+name)
			}
		}
		slices.Sort(out)
		return out
	}
	whole := func(k route.Known) bool {
		return k.Routes["pg-master"].VIP.String() == "127.10.1.2" && k.ServiceMeshes["pg"].Proxies[0].Port == 20003 && k.Specs["pg"].Name == "pg" && k.Accepted["pg"] != 0
	}
	if _, m, err := read(t, map[string]string{}).RoutesKnown(); err != nil || missing(m) != nil {
		t.Error(m, err)
	}
	if known, m, err := read(t, good()).RoutesKnown(); err != nil || missing(m) != nil || !whole(known) {
		t.Errorf("%+v, %v, %v", known, m, err)
	}
	for key, c := range map[string]struct{ text, missing string }{
		store.RouteKey("other"):        {`{"route":"pg-master","vip":"127.10.1.3","group":"pg"}`, "route other"},
		store.RouteKey("outside"):      {`{"route":"outside","vip":"127.11.1.3","group":"pg"}`, "route outside"},
		store.RoutesPrefix + "a/b":     {goodRoute, "route a/b"},
		store.ServiceMeshKey("web"):    {goodMesh, "mesh web"},
		store.ServiceMeshKey("a"):      {`{"group":"a","odd":1}`, "mesh a"},
		store.ServiceMeshKey("b"):      {strings.ReplaceAll(strings.ReplaceAll(goodMesh, `"pg",`, `"b",`), "20003", "21003"), "mesh b"},
		store.GroupAcceptedKey("lost"): {`{}`, "spec lost"},
	} {
		entries := good()
		entries[key] = c.text
		if known, m, err := read(t, entries).RoutesKnown(); err == nil || !strings.Contains(err.Error(), key) || !slices.Equal(missing(m), []string{c.missing}) || !whole(known) {
			t.Errorf("%s: %+v, %v, %v", key, known, missing(m), err)
		}
	}
	entries := good()
	entries[store.RouteKey("twice")] = `{"route":"twice","vip":"127.10.1.2","group":"pg"}`
	if known, m, err := read(t, entries).RoutesKnown(); err == nil || !slices.Equal(missing(m), []string{"route pg-master", "route twice"}) || len(known.Routes) != 0 {
		t.Errorf("one address twice: %+v, %v, %v", known.Routes, missing(m), err)
	}
	// A stored spec was not judged, so it does not replace an unreadable accepted one.
	entries = good()
	entries[store.GroupAcceptedKey("pg")], entries[store.GroupSpecKey("pg")] = `{}`, specText(t)
	if known, m, err := read(t, entries).RoutesKnown(); err == nil || len(known.Specs) != 0 || !m.Specs["pg"] {
		t.Errorf("only stored: %+v, %v, %v", known.Specs, m, err)
	}
	// These records do not concern routes: an operator's broken edit must not stop routes.
	for _, key := range []string{store.OverrideKey(store.OverrideFreeze, store.Everywhere), store.GroupSpecKey("pg"), store.SlotKey("pg", "pg-0"), store.GroupStatusKey("pg")} {
		entries := good()
		entries[key] = `now`
		if _, m, err := read(t, entries).RoutesKnown(); err != nil || missing(m) != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestMeshOf: an unreadable record is reported as unreadable, not as removed.
func TestMeshOf(t *testing.T) {
	of := func(entries map[string]string) *view.View { return read(t, entries) }
	if mesh, index, ok := of(map[string]string{store.ServiceMeshKey("pg"): goodMesh, store.ServiceMeshKey("pg-2"): `{}`}).ServiceMeshOf("pg"); !ok || index == 0 || len(mesh.Proxies) != 1 {
		t.Errorf("%+v at %d, %v", mesh, index, ok)
	}
	if _, index, ok := of(map[string]string{store.ServiceMeshKey("pg"): `{}`}).ServiceMeshOf("pg"); ok || index == 0 {
		t.Errorf("unreadable: at %d, %v", index, ok)
	}
	if mesh, index, ok := of(nil).ServiceMeshOf("pg"); !ok || index != 0 || mesh.Group != "" {
		t.Errorf("none: %+v at %d, %v", mesh, index, ok)
	}
}

// TestBeforeIsOfAllGroups: a View of one group knows the names of the others.
func TestBeforeIsOfAllGroups(t *testing.T) {
	s := storetest.NewMemory()
	for key, text := range map[string]string{store.GroupAcceptedKey("pg"): accepted(t, "pg"), store.ServiceMeshKey("pg"): goodMesh} {
		if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	latest, err := view.Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	one, err := view.ReadGroup(t.Context(), s, "web", latest, nil)
	if err != nil || one.Before(1)["pg"].Name != "pg" {
		t.Errorf("%+v, %v", one.Before(1), err)
	}
}
