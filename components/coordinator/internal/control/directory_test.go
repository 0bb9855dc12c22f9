package control

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/overlaystatus/peermap"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// town is a cluster whose records change at random.
type town struct {
	rng          *rand.Rand
	v            *view.View
	coordinators []peering.Member
	touched      Scope
}

func newTown(seed uint64) *town {
	c := &town{rng: rand.New(rand.NewPCG(seed, 2)), v: &view.View{
		Specs: map[string]view.Spec{}, Slots: map[string]view.Rec[group.SlotRecord]{}, Admissions: map[string]view.Rec[policy.Admission]{},
		Policies: map[string]view.Rec[policy.SlotPolicy]{}, ServiceMeshes: map[string]view.Rec[group.ServiceMesh]{},
	}}
	for n := range 3 {
		c.coordinators = append(c.coordinators, peering.Member{Group: peering.CoordinatorGroup, Slot: peering.CoordinatorSlot(n), Coordinator: true})
	}
	return c
}

func (c *town) group() string { return fmt.Sprint("g", c.rng.IntN(6)) }

// change changes one group's records, or the address of a coordinator.
func (c *town) change() {
	c.v.Index++
	name := c.group()
	slot := fmt.Sprint(name, "-", c.rng.IntN(3))
	c.touched[name] = struct{}{}
	switch c.rng.IntN(9) {
	case 0:
		delete(c.v.Admissions, slot)
	case 1:
		delete(c.v.Specs, name)
	case 2:
		spec := group.Spec{Name: name}
		for range c.rng.IntN(3) {
			b := group.Backend{Name: "b", Port: 1000 + c.rng.IntN(3)}
			for range c.rng.IntN(3) {
				b.Allow = append(b.Allow, c.group())
			}
			spec.Backends = append(spec.Backends, b)
		}
		c.v.Specs[name] = view.Spec{Value: spec, Index: c.v.Index}
	case 7:
		delete(c.v.ServiceMeshes, name)
	case 8:
		p := group.Proxy{ID: "x-sidecar-proxy", Service: "x", Backend: []string{"b", "x"}[c.rng.IntN(2)], Port: 20000 + c.rng.IntN(2)}
		for range c.rng.IntN(3) {
			p.Callers = append(p.Callers, c.group())
		}
		c.v.ServiceMeshes[name] = view.Rec[group.ServiceMesh]{Value: group.ServiceMesh{Group: name, Proxies: []group.Proxy{p}}, Index: c.v.Index}
	case 3:
		if c.rng.IntN(4) == 0 {
			c.coordinators[c.rng.IntN(3)].InstanceID = fmt.Sprint("i", c.v.Index)
		}
	default:
		c.v.Slots[slot] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: name, Slot: slot, VIP: "127.50.1.1", InstanceID: "i"}, Index: c.v.Index}
		c.v.Admissions[slot] = view.Rec[policy.Admission]{Index: c.v.Index, Value: policy.Admission{
			Group: name, Slot: slot, BootID: fmt.Sprint("b", c.rng.IntN(3)), InstanceID: "i",
		}}
		c.v.Policies[slot] = view.Rec[policy.SlotPolicy]{Value: policy.SlotPolicy{Group: name, Slot: slot, InstanceID: "i"}, Index: c.v.Index}
	}
}

// want is the map of a member by the rules alone.
func (c *town) want(name, slot string) []*controlv1.Peer {
	all := slices.Clone(c.coordinators)
	for s, a := range c.v.Admissions {
		all = append(all, peering.Member{Group: a.Value.Group, Slot: s, VIP: "127.50.1.1", InstanceID: "i", BootID: a.Value.BootID})
	}
	return Wire(peering.Map(peering.Member{Group: name, Slot: slot}, all, c.rules()))
}

func (c *town) rules() peering.Rules {
	out := peering.Rules{Specs: c.v.SpecsInForce(), ServiceMeshes: map[string]group.ServiceMesh{}}
	for name, m := range c.v.ServiceMeshes {
		out.ServiceMeshes[name] = m.Value
	}
	return out
}

func sameMap(a, b []*controlv1.Peer) bool {
	return slices.EqualFunc(a, b, func(x, y *controlv1.Peer) bool { return proto.Equal(x, y) })
}

// TestMapsFollowTheRecords: after any change of the records, each member's map follows from the
// rules. A group is reported as changed if and only if its map changed.
func TestMapsFollowTheRecords(t *testing.T) {
	named, kept := 0, 0
	for seed := range uint64(40) {
		c := newTown(seed)
		var d Directory
		for range 40 {
			before := map[string]*peermap.Map{}
			for n := range 6 {
				name := fmt.Sprint("g", n)
				if d.VersionOf(name) != 0 {
					before[name] = d.Map(name)
				}
			}
			c.touched = Scope{}
			for range c.rng.IntN(4) {
				c.change()
			}
			next := *c.v // a View is immutable
			next.Specs, next.Admissions, next.Slots, next.ServiceMeshes = maps.Clone(c.v.Specs), maps.Clone(c.v.Admissions), maps.Clone(c.v.Slots), maps.Clone(c.v.ServiceMeshes)
			changed := d.Update(&next, c.coordinators, c.touched)
			for name, was := range before {
				now := d.Map(name)
				other := !sameMap(now.Whole(""), was.Whole(""))
				if slices.Contains(changed, name) != other {
					t.Fatalf("seed %d: %s named as changed: %t, its map says something else: %t", seed, name, slices.Contains(changed, name), other)
				}
				if other && now.Version <= was.Version {
					t.Fatalf("seed %d: version %d after %d", seed, now.Version, was.Version)
				}
				if other {
					named++
				} else {
					kept++
				}
			}
			for n := range 6 {
				name := fmt.Sprint("g", n)
				slot := name + "-1"
				if got, want := d.InitialPeers(name, slot), c.want(name, slot); !sameMap(got, want) {
					t.Fatalf("seed %d: %s has %v, want %v", seed, slot, got, want)
				}
			}
		}
	}
	if named == 0 || kept == 0 {
		t.Errorf("%d maps changed, %d did not", named, kept)
	}
}

// An agent gets the changes on the same session. On a new session, and in an earlier version, it
// gets the whole map.
func TestPeersAreSentAsChanges(t *testing.T) {
	s, _ := service(t)
	v := records()
	coordinators := []peering.Member{{Group: peering.CoordinatorGroup, Slot: "coordinator-0", VIP: "127.50.0.1", Coordinator: true}}
	s.directory.Update(v, coordinators, nil)
	one, ctx := served{s, &session{}}, from(t, "pg", "pg-0", "boot")
	var held peermap.Known
	ask := func(caller served, changes bool) *controlv1.GetPeersResponse {
		t.Helper()
		r, err := caller.GetPeers(ctx, &controlv1.GetPeersRequest{KnownVersion: held.Version(), Changes: changes})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	apply := func(r *controlv1.GetPeersResponse) {
		t.Helper()
		if _, err := held.Apply(r); err != nil {
			t.Fatal(err)
		}
		if want := s.directory.InitialPeers("pg", "pg-0"); !sameMap(held.Peers(), want) {
			t.Fatalf("held %v, want %v", held.Peers(), want)
		}
	}
	first := ask(one, true)
	if first.GetBase() != 0 || len(first.GetPeers()) != 1 {
		t.Errorf("at first %v", first)
	}
	apply(first)
	if r := ask(one, true); r.GetBase() != first.GetVersion() || r.GetVersion() != first.GetVersion() || len(r.GetPeers()) != 0 {
		t.Errorf("unchanged: %v", r)
	}
	v = records()
	v.Index++
	v.Slots["pg-1"] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: "pg", Slot: "pg-1", VIP: "127.50.1.2", InstanceID: "j"}}
	v.Admissions["pg-1"] = view.Rec[policy.Admission]{Value: policy.Admission{Group: "pg", Slot: "pg-1", BootID: "b", InstanceID: "j"}}
	if changed := s.directory.Update(v, coordinators, Scope{"pg": {}}); !slices.Contains(changed, "pg") {
		t.Errorf("changed: %v", changed)
	}
	r := ask(one, true)
	if r.GetBase() != first.GetVersion() || len(r.GetPeers()) != 1 || r.GetPeers()[0].GetSlot() != "pg-1" {
		t.Errorf("changed: %v", r)
	}
	apply(r)
	if r := ask(served{s, &session{}}, true); r.GetBase() != 0 || len(r.GetPeers()) != 2 {
		t.Errorf("on a new session: %v", r)
	}
	if r := ask(one, false); r.GetBase() != 0 || len(r.GetPeers()) != 2 {
		t.Errorf("without changes: %v", r)
	}
}

// The answer for an unchanged desired state is a few bytes. An agent that takes only whole answers,
// or has the state of another Term, gets all of it.
func TestUnchangedDesiredStateIsAFewBytes(t *testing.T) {
	s, _ := service(t)
	ctx := from(t, "pg", "pg-0", "boot")
	v, _ := s.views.Latest()
	seen := *v
	seen.Term, seen.State = 3, 9
	seen.Slots = map[string]view.Rec[group.SlotRecord]{"pg-0": {Value: group.SlotRecord{Group: "pg", Slot: "pg-0"}, Index: 12}}
	stands := stampOf(&seen, "pg-0")
	now, sum := stands.version, stands.sum
	for name, c := range map[string]struct {
		req  *controlv1.GetDesiredRequest
		want bool
	}{
		"nothing known":       {&controlv1.GetDesiredRequest{}, false},
		"an earlier version":  {&controlv1.GetDesiredRequest{KnownVersion: now}, false},
		"of another term":     {&controlv1.GetDesiredRequest{KnownVersion: now, KnownTerm: 2}, false},
		"older":               {&controlv1.GetDesiredRequest{KnownVersion: now - 1, KnownTerm: 3}, false},
		"of other records":    {&controlv1.GetDesiredRequest{KnownVersion: now, KnownTerm: 3, KnownIndexSum: sum - 1}, false},
		"the same, of before": {&controlv1.GetDesiredRequest{KnownVersion: now, KnownTerm: 3}, true},
		"the same":            {&controlv1.GetDesiredRequest{KnownVersion: now, KnownTerm: 3, KnownIndexSum: sum}, true},
	} {
		short := Unchanged(&seen, "pg-0", c.req)
		if (short != nil) != c.want || short != nil && (short.GetVersion() != now || short.GetTerm() != 3 || short.GetState() != 9) {
			t.Errorf("%s: %v", name, short)
		}
	}
	if r, err := s.GetDesired(ctx, nil); err != nil || r.GetDesired() == nil {
		t.Errorf("%v, %v", r, err)
	}
}
