package catalog_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/catalog"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

const callerID = "pg-sidecar-proxy"

// stray writes the unfenced registration of a coordinator that crashed right after it.
func (w *world) stray(id, boot string) {
	w.t.Helper()
	service := consul.AgentService{ID: id, Service: id, Address: "127.0.0.1", Port: 20999, Meta: map[string]string{catalog.MetaBoot: boot}}
	if _, err := w.admin.Catalog().Register(&consul.CatalogRegistration{Node: slot, Address: vip, SkipNodeUpdate: true, Service: &service}, nil); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) noNode() bool {
	w.t.Helper()
	list, _, err := w.admin.Catalog().NodeServiceList(slot, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return list == nil || list.Node == nil
}

func ofBoot(boot string) func([]*consul.ServiceEntry) bool {
	return func(list []*consul.ServiceEntry) bool {
		return len(list) == 1 && list[0].Service.Meta[catalog.MetaBoot] == boot && len(list[0].Service.Proxy.Upstreams) == 1
	}
}

func nobody(list []*consul.ServiceEntry) bool { return len(list) == 0 }

// The registration of a caller has no fence. If its Boot is gone, it leaves no node behind, and the
// next Boot's own service is written again.
func TestTheCallerProxyOfAGoneBootIsRemoved(t *testing.T) {
	w := newWorld(t)
	c := w.coordinator(true)
	if err := c.writer.RegisterCaller(t.Context(), "pg", slot, "b0", vip); err == nil || !w.noNode() {
		t.Errorf("a node is left: %v, %v", !w.noNode(), err)
	}
	w.admit("b1")
	c.say(1, controlv1.Role_ROLE_LEADER)
	w.await("it is there", func(s state) bool { return s.status == consul.HealthPassing })
	session := w.newSession()
	if err := c.writer.RegisterCaller(t.Context(), "pg", slot, "b0", vip); err == nil {
		t.Error("it is done")
	}
	if got := w.services(); !slices.Equal(got, []string{"pg"}) {
		t.Errorf("on the next boot's node: %v", got)
	}
	put(w, store.ServiceMeshKey("pg"), mesh(func(m *group.ServiceMesh) { m.Proxies = m.Proxies[2:] }))
	w.reach("it calls", callerID, false, ofBoot("b1"))
	c.settled(w)
	if err := c.writer.RegisterCaller(t.Context(), "pg", slot, "b0", vip); err == nil {
		t.Error("it is done")
	}
	w.reach("its own is there again", callerID, false, ofBoot("b1"))
	if !w.alive(session) {
		t.Error("the node was replaced")
	}
}

// The next evaluation removes strays of an earlier Boot, whether or not the next Boot has such a
// service.
func TestTheNextEvaluationRemovesStrays(t *testing.T) {
	w := newWorld(t)
	put(w, store.ServiceMeshKey("pg"), mesh(func(m *group.ServiceMesh) { m.Proxies = m.Proxies[2:] }))
	w.admit("b1")
	c := w.coordinator(true)
	c.say(1, controlv1.Role_ROLE_LEADER)
	w.reach("it calls", callerID, false, ofBoot("b1"))
	c.settled(w)
	w.stray(callerID, "b0")
	w.stray("old-sidecar-proxy", "b0")
	c.say(2, controlv1.Role_ROLE_FOLLOWER)
	w.reach("it calls again", callerID, false, ofBoot("b1"))
	w.reach("the other is gone", "old-sidecar-proxy", false, nobody)
}

// An orphan of a removed Slot is deleted once no call can be in flight. Services of other writers
// stay.
func TestTheOrphanOfASlotIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.admit("b1")
	var ahead atomic.Int64
	c := w.coordinatorAt(w.server.Addr, true, func(cfg *catalog.Config) {
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	evict := func() {
		t.Helper()
		c.report("b1", 1, controlv1.Role_ROLE_LEADER, controlv1.Health_HEALTH_HEALTHY)
		w.await("it is there", func(s state) bool { return s.status == consul.HealthPassing })
		if err := w.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.AdmissionKey(slot)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := c.writer.AwaitGone(ctx, slot); err != nil {
			t.Fatal(err)
		}
		if err := c.writer.Remove(t.Context(), slot, "b1"); err != nil {
			t.Fatal(err)
		}
	}
	evict()
	w.stray(callerID, "b1")
	ahead.Add(int64(11 * time.Second))
	c.writer.Note(slot)
	w.reach("the orphan is gone", callerID, false, nobody)
	if !w.noNode() {
		t.Error("and its node is not")
	}

	w.admit("b1")
	evict()
	w.stray(callerID, "b1")
	if _, err := w.admin.Catalog().Register(&consul.CatalogRegistration{Node: slot, Address: vip, SkipNodeUpdate: true, Service: &consul.AgentService{ID: "theirs", Service: "theirs"}}, nil); err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(11 * time.Second))
	c.writer.Note(slot)
	c.settled(w)
	if w.noNode() {
		t.Error("a foreign service was removed")
	}
}
