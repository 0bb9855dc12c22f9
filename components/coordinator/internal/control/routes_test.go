package control

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

func meshRecord(index uint64, routes ...string) map[string]view.Rec[group.ServiceMesh] {
	m := group.ServiceMesh{Group: "pg", Proxies: []group.Proxy{{ID: "pg-pg-sidecar-proxy", Service: "pg-pg", Backend: "pg", Port: 20000, LocalPort: 5432, Callers: []string{"web"}}}}
	for _, name := range routes {
		m.Routes = append(m.Routes, group.RouteTo{Name: name, VIP: netip.MustParseAddr("127.10.0.1"), Port: 80})
	}
	return map[string]view.Rec[group.ServiceMesh]{"pg": {Value: m, Index: index}}
}

// allowing is a spec of pg whose backend has another port than its proxy, so that tests can
// distinguish them.
func allowing(callers ...string) group.Spec {
	return group.Spec{Name: "pg", Backends: []group.Backend{{Name: "pg", Port: 5432, Protocol: "udp", Allow: callers}}}
}

func configOf(t *testing.T, d *controlv1.Desired) group.AgentConfig {
	t.Helper()
	var out group.AgentConfig
	if err := json.Unmarshal(d.GetConfigJson(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A new service mesh is a new version of the desired state at the same Revision. With an unreadable
// record the agent keeps its configuration.
func TestARouteReachesTheAgentsWithoutARollout(t *testing.T) {
	v := records()
	none := desired(t, v, "boot")
	v.ServiceMeshes = meshRecord(30, "a")
	one := desired(t, v, "boot")
	v.ServiceMeshes = meshRecord(40, "a", "b")
	two := desired(t, v, "boot")
	if none.GetVersion() >= one.GetVersion() || one.GetVersion() >= two.GetVersion() {
		t.Errorf("versions %d, %d, %d", none.GetVersion(), one.GetVersion(), two.GetVersion())
	}
	if a, b := configOf(t, one), configOf(t, two); len(a.ServiceMesh.Routes) != 1 || len(b.ServiceMesh.Routes) != 2 || len(b.ServiceMesh.Proxies) != 1 || a.Revision != b.Revision {
		t.Errorf("%+v, then %+v", a, b)
	}
	if got := configOf(t, none).ServiceMesh; got.Group != "" {
		t.Errorf("without a service mesh it gets %+v", got)
	}
	v.ServiceMeshes = nil
	v.Bad = []*store.RecordError{{Key: store.ServiceMeshKey("pg"), Index: 50, Err: errors.New("odd")}}
	if lost := desired(t, v, "boot"); lost.GetConfigJson() != nil || lost.GetVersion() != 50 {
		t.Errorf("unreadable: version %d, configuration %s", lost.GetVersion(), lost.GetConfigJson())
	}
	v.Bad[0].Key = store.ServiceMeshKey("pg-2")
	if other := desired(t, v, "boot"); other.GetConfigJson() == nil {
		t.Error("another group's record that cannot be read keeps the configuration back")
	}
}

// The peer map opens a proxy for its callers. An unreadable service mesh changes no map.
func TestTheMapOpensAProxyForItsCallers(t *testing.T) {
	v := records()
	v.Accepted["pg"] = view.Accepted{Value: allowing("web"), Index: 20}
	v.Specs["web"] = view.Spec{Value: group.Spec{Name: "web"}, Index: 20}
	v.Slots["web-0"] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: "web", Slot: "web-0", VIP: "127.50.1.2", InstanceID: "j"}}
	v.Admissions["web-0"] = view.Rec[policy.Admission]{Value: policy.Admission{Group: "web", Slot: "web-0", BootID: "b", InstanceID: "j"}}
	var d Directory
	d.Update(v, nil, nil)
	offers := func() (out []uint32) {
		for _, p := range d.InitialPeers("web", "web-0") {
			for _, port := range p.GetOffers() {
				if port.GetProtocol() == controlv1.Protocol_PROTOCOL_TCP {
					out = append(out, port.GetPort())
				}
			}
		}
		return out
	}
	if got := offers(); got != nil {
		t.Errorf("without a part: %v", got)
	}
	with := *v
	with.Index, with.ServiceMeshes = v.Index+1, meshRecord(30)
	if changed := d.Update(&with, nil, Scope{"pg": {}}); !slices.Contains(changed, "web") || !slices.Contains(changed, peering.CoordinatorGroup) || !slices.Equal(offers(), []uint32{20000}) {
		t.Errorf("changed %v, offers %v", changed, offers())
	}
	lost := *v
	lost.Index, lost.Bad = v.Index+2, []*store.RecordError{{Key: store.ServiceMeshKey("pg"), Index: 50, Err: errors.New("odd")}}
	if changed := d.Update(&lost, nil, nil); len(changed) != 0 || !slices.Equal(offers(), []uint32{20000}) {
		t.Errorf("unreadable: changed %v, offers %v", changed, offers())
	}
	moved := with
	moved.Index, moved.ServiceMeshes = v.Index+2, meshRecord(40)
	moved.ServiceMeshes["pg"].Value.Proxies[0].Backend = "other" // without any allowed caller
	if changed := d.Update(&moved, nil, Scope{"pg": {}}); !slices.Contains(changed, "web") || offers() != nil {
		t.Errorf("another backend's: changed %v, offers %v", changed, offers())
	}
	d.Update(&with, nil, Scope{"pg": {}})
	// A caller that was removed from allow stays out, even if the service mesh record is unwritable
	// or unreadable.
	refused := lost
	refused.Index, refused.Accepted = v.Index+3, map[string]view.Accepted{"pg": {Value: allowing(), Index: 60}}
	if changed := d.Update(&refused, nil, Scope{"pg": {}}); !slices.Contains(changed, "web") || offers() != nil {
		t.Errorf("not allowed any more: changed %v, offers %v", changed, offers())
	}
	with.Index = v.Index + 4
	if d.Update(&with, nil, Scope{"pg": {}}); !slices.Equal(offers(), []uint32{20000}) {
		t.Errorf("allowed again: offers %v", offers())
	}
	gone := *v
	gone.Index = v.Index + 5
	if changed := d.Update(&gone, nil, Scope{"pg": {}}); !slices.Contains(changed, "web") || offers() != nil {
		t.Errorf("gone: changed %v, offers %v", changed, offers())
	}
}

// An unreadable accepted spec keeps its last readable value: the stored spec was not accepted, and
// may allow more. A group stays while its accepted record exists.
func TestAnUnreadableSpecKeepsItsLastValue(t *testing.T) {
	allows := func(d *Directory) []string {
		spec, _ := d.Spec("pg")
		if len(spec.Backends) == 0 {
			return nil
		}
		return spec.Backends[0].Allow
	}
	bad := []*store.RecordError{{Key: store.GroupAcceptedKey("pg"), Index: 50, Err: errors.New("odd")}}
	stored := map[string]view.Spec{"pg": {Value: allowing("web", "other"), Index: 20}}
	for name, c := range map[string]struct {
		v    view.View
		want []string
	}{
		"readable":                           {view.View{Specs: stored, Accepted: map[string]view.Accepted{"pg": {Value: allowing("other"), Index: 20}}}, []string{"other"}},
		"unreadable, another one is stored":  {view.View{Specs: stored, Bad: bad}, []string{"web"}},
		"unreadable, none is stored":         {view.View{Bad: bad}, []string{"web"}},
		"gone":                               {view.View{}, nil},
		"gone, and another group's is there": {view.View{Bad: []*store.RecordError{{Key: store.GroupAcceptedKey("pg-2"), Index: 50}}}, nil},
	} {
		var d Directory
		d.Update(&view.View{Accepted: map[string]view.Accepted{"pg": {Value: allowing("web"), Index: 10}}}, nil, nil)
		c.v.Index = 50
		d.Update(&c.v, nil, Scope{"pg": {}})
		if got := allows(&d); !slices.Equal(got, c.want) {
			t.Errorf("%s: allows %v, want %v", name, got, c.want)
		}
	}
}
