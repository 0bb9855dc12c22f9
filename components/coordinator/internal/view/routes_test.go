package view_test

import (
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

const (
	goodRoute = `{"route":"pg-master","vip":"127.10.1.2","group":"pg"}`
	goodMesh  = `{"group":"pg","proxies":[{"id":"pg-pg-sidecar-proxy","service":"pg-pg","backend":"pg","port":20003,"local_port":5432}]}`
)

// TestNoRouteIsDecidedByUnreadableRecords: what they may name would be given a second time.
func TestNoRouteIsDecidedByUnreadableRecords(t *testing.T) {
	good := func() map[string]string {
		return map[string]string{store.RouteKey("pg-master"): goodRoute, store.MeshKey("pg"): goodMesh, store.GroupAcceptedKey("pg"): accepted(t, "pg")}
	}
	if _, err := read(t, map[string]string{}).RoutesKnown(); err != nil {
		t.Error(err)
	}
	known, err := read(t, good()).RoutesKnown()
	if err != nil || known.Routes["pg-master"].VIP.String() != "127.10.1.2" || known.Meshes["pg"].Proxies[0].Port != 20003 || known.Specs["pg"].Name != "pg" || known.Accepted["pg"] == 0 {
		t.Errorf("%+v, %v", known, err)
	}
	for key, text := range map[string]string{
		store.RouteKey("other"):        `{"route":"pg-master","vip":"127.10.1.3","group":"pg"}`,
		store.RouteKey("outside"):      `{"route":"outside","vip":"127.11.1.3","group":"pg"}`,
		store.RouteKey("twice"):        `{"route":"twice","vip":"127.10.1.2","group":"pg"}`,
		store.RoutesPrefix + "a/b":     goodRoute,
		store.MeshKey("web"):           goodMesh,
		store.MeshKey("a"):             `{"group":"a","odd":1}`,
		store.MeshKey("b"):             strings.ReplaceAll(strings.ReplaceAll(goodMesh, `"pg",`, `"b",`), "20003", "21003"),
		store.GroupAcceptedKey("lost"): `{}`,
	} {
		entries := good()
		entries[key] = text
		if known, err := read(t, entries).RoutesKnown(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %+v, %v", key, known, err)
		}
	}
	// These say nothing of routes: an operator's broken edit must not stop them.
	for _, key := range []string{store.FreezeKey(), store.GroupSpecKey("pg"), store.SlotKey("pg", "pg-0"), store.GroupStatusKey("pg")} {
		entries := good()
		entries[key] = `now`
		if _, err := read(t, entries).RoutesKnown(); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestMeshOf: a record that cannot be read is not one that is gone.
func TestMeshOf(t *testing.T) {
	of := func(entries map[string]string) *view.View { return read(t, entries) }
	if mesh, index, ok := of(map[string]string{store.MeshKey("pg"): goodMesh, store.MeshKey("pg-2"): `{}`}).MeshOf("pg"); !ok || index == 0 || len(mesh.Proxies) != 1 {
		t.Errorf("%+v at %d, %v", mesh, index, ok)
	}
	if _, index, ok := of(map[string]string{store.MeshKey("pg"): `{}`}).MeshOf("pg"); ok || index == 0 {
		t.Errorf("unreadable: at %d, %v", index, ok)
	}
	if mesh, index, ok := of(nil).MeshOf("pg"); !ok || index != 0 || mesh.Group != "" {
		t.Errorf("none: %+v at %d, %v", mesh, index, ok)
	}
}

// TestBeforeIsOfAllGroups: a View of one group knows whose names others have.
func TestBeforeIsOfAllGroups(t *testing.T) {
	s := storetest.NewMemory()
	for key, text := range map[string]string{store.GroupAcceptedKey("pg"): accepted(t, "pg"), store.MeshKey("pg"): goodMesh} {
		if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	latest, err := view.Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	one, err := view.ReadGroup(t.Context(), s, "web", latest)
	if err != nil || one.Before(1)["pg"].Name != "pg" {
		t.Errorf("%+v, %v", one.Before(1), err)
	}
}
