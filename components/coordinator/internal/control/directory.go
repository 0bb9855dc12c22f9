package control

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/overlaystatus/peermap"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// Scope is a set of group names; nil: all groups.
type Scope map[string]struct{}

func (s Scope) has(name string) bool {
	_, in := s[name]
	return s == nil || in
}

// ScopeOf returns the Scope of the changed groups.
func ScopeOf[T any](all bool, groups map[string]T) Scope {
	if all {
		return nil
	}
	out := make(Scope, len(groups))
	for name := range groups {
		out[name] = struct{}{}
	}
	return out
}

// Directory has the current members of the cluster and makes the peer maps from them. All members
// of a group share one map, so the cost of an update depends on the size of the change. Safe for
// concurrent use.
type Directory struct {
	// updates serializes Update. This mutex is separate from mu, so that readers do not wait while
	// Update judges members.
	updates sync.Mutex
	known   known // guarded by updates; last readable records of each Slot

	mu           sync.RWMutex
	coordinators []peering.Member             // guarded by mu
	members      map[string][]peering.Member  // guarded by mu; by group, sorted by Slot
	specs        map[string]group.Spec        // guarded by mu; last valid spec of each group
	meshes       map[string]group.ServiceMesh // guarded by mu; last readable part of each group in the service layer
	related      relations                    // guarded by mu
	maps         map[string]*peermap.Map      // guarded by mu; by group of workloads, made on first use
	version      uint64                       // guarded by mu; highest of any map so far
}

// Update takes a View, in which at most the groups of scope changed, and the coordinators. Update
// returns the groups whose peer maps changed, with peering.CoordinatorGroup if the coordinators'
// map did. A map's version is the index at which its content was first seen: it grows with each
// change on every coordinator. A member whose records are unreadable keeps its earlier data.
func (d *Directory) Update(v *view.View, coordinators []peering.Member, scope Scope) (changed []string) {
	d.updates.Lock()
	defer d.updates.Unlock()
	d.known.update(v, scope)
	members, specs := d.known.members(v, scope), inForce(v, scope)

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.maps == nil {
		d.members, d.specs, d.meshes, d.maps = map[string][]peering.Member{}, map[string]group.Spec{}, map[string]group.ServiceMesh{}, map[string]*peermap.Map{}
	}
	touched := Scope{}
	d.takeMembersLocked(members, scope, touched)
	before := d.related
	specsChanged, meshesChanged := d.takeSpecsLocked(v, specs, touched), d.takeMeshesLocked(v, scope, touched)
	if specsChanged || meshesChanged {
		d.related = relationsOf(d.rulesLocked())
	}
	moved := !slices.Equal(d.coordinators, coordinators)
	d.coordinators = slices.Clone(coordinators)
	if len(touched) == 0 && !moved {
		return nil
	}
	d.version = max(v.Index, d.version+1)
	affected := Scope(nil)
	if !moved {
		affected = before.around(touched)
		maps.Copy(affected, d.related.around(touched))
	}
	return append(d.renewLocked(affected), peering.CoordinatorGroup)
}

// renewLocked rebuilds the affected maps that were requested before, and returns the groups whose
// maps changed.
func (d *Directory) renewLocked(affected Scope) (changed []string) {
	for name, before := range d.maps {
		if !affected.has(name) {
			continue
		}
		after := d.makeLocked(name, before)
		if after != before {
			changed = append(changed, name)
		}
		d.maps[name] = after
		if _, exists := d.specs[name]; !exists && len(d.members[name]) == 0 {
			delete(d.maps, name) // Map makes it again on request
		}
	}
	return changed
}

// takeSpecsLocked takes the specs in force, adds the groups whose ports changed to touched, and
// reports whether there are any.
func (d *Directory) takeSpecsLocked(v *view.View, specs map[string]group.Spec, touched Scope) (changed bool) {
	touch := func(name string) {
		changed = true
		touched[name] = struct{}{}
	}
	for name := range d.specs {
		_, exists := v.Specs[name]
		if _, accepted := v.Accepted[name]; !exists && !accepted && !v.Unreadable(store.GroupAcceptedKey(name)) {
			touch(name)
			delete(d.specs, name)
		}
	}
	// An invalid edit or the removal of a spec changes nothing for running members: the last valid
	// spec stays in force. That spec is in the records; this copy only covers the time until the
	// leader has recorded it.
	for name, spec := range specs {
		before, known := d.specs[name]
		if known && v.Unreadable(store.GroupAcceptedKey(name)) {
			continue // the stored spec was not accepted, and may allow more
		}
		if !known || !samePorts(before, spec) {
			touch(name)
		}
		d.specs[name] = spec
	}
	return changed
}

// takeMeshesLocked takes the groups' service meshes, adds the groups whose ports changed to
// touched, and reports whether there are any. An unreadable service mesh keeps its last state.
func (d *Directory) takeMeshesLocked(v *view.View, scope, touched Scope) (changed bool) {
	take := func(name string) {
		mesh, _, ok := v.ServiceMeshOf(name)
		if !ok {
			return
		}
		if !sameProxies(d.meshes[name], mesh) {
			changed = true
			touched[name] = struct{}{}
		}
		if d.meshes[name] = mesh; mesh.Group == "" {
			delete(d.meshes, name)
		}
	}
	for name := range v.ServiceMeshes {
		if scope.has(name) {
			take(name)
		}
	}
	for name := range d.meshes {
		if _, left := v.ServiceMeshes[name]; !left && scope.has(name) {
			take(name)
		}
	}
	return changed
}

// ServiceMesh returns the service mesh of a group in v. If its record is unreadable, it returns the
// last readable one. ServiceMesh returns the zero value if there is none.
func (d *Directory) ServiceMesh(v *view.View, name string) group.ServiceMesh {
	if mesh, _, ok := v.ServiceMeshOf(name); ok {
		return mesh
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.meshes[name]
}

// ServiceMeshes returns the service meshes of all groups, each as [Directory.ServiceMesh] does.
func (d *Directory) ServiceMeshes(v *view.View) map[string]group.ServiceMesh {
	d.mu.RLock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(d.meshes)), maps.Keys(v.ServiceMeshes))
	d.mu.RUnlock()
	out := map[string]group.ServiceMesh{}
	for _, name := range names {
		out[name] = d.ServiceMesh(v, name)
	}
	return out
}

// sameProxies reports whether two service meshes of a group give the same peer maps.
func sameProxies(a, b group.ServiceMesh) bool {
	return slices.EqualFunc(a.Proxies, b.Proxies, func(p, q group.Proxy) bool {
		return p.Port == q.Port && p.Backend == q.Backend && slices.Equal(p.Callers, q.Callers)
	})
}

func (d *Directory) rulesLocked() peering.Rules {
	return peering.Rules{Specs: d.specs, ServiceMeshes: d.meshes}
}

// inForce returns the specs in force of the groups of scope.
func inForce(v *view.View, scope Scope) map[string]group.Spec {
	if scope == nil {
		return v.SpecsInForce()
	}
	out := map[string]group.Spec{}
	for name := range scope {
		if spec, _, ok := v.InForce(name); ok {
			out[name] = spec
		}
	}
	return out
}

// samePorts reports whether two specs of a group give the same peer maps.
func samePorts(a, b group.Spec) bool {
	return reflect.DeepEqual(a.Workload, b.Workload) && reflect.DeepEqual(a.Backends, b.Backends)
}

// takeMembersLocked adds the groups whose members changed to touched.
func (d *Directory) takeMembersLocked(now map[string][]peering.Member, scope, touched Scope) {
	for name := range d.members {
		if scope.has(name) && len(now[name]) == 0 {
			delete(d.members, name)
			touched[name] = struct{}{}
		}
	}
	for name, members := range now {
		if !slices.Equal(d.members[name], members) {
			d.members[name] = members
			touched[name] = struct{}{}
		}
	}
}

// seenLocked returns the Peers of a group's members, including these members.
func (d *Directory) seenLocked(self peering.Member) []peering.Peer {
	all := slices.Clone(d.coordinators)
	if self.Coordinator {
		for _, members := range d.members {
			all = append(all, members...)
		}
	} else {
		all = append(all, d.members[self.Group]...)
		for other := range d.related[self.Group] {
			if other != self.Group {
				all = append(all, d.members[other]...)
			}
		}
	}
	return peering.Map(self, all, d.rulesLocked())
}

// makeLocked makes the map of a group of workloads; it returns before if nothing changed.
func (d *Directory) makeLocked(name string, before *peermap.Map) *peermap.Map {
	return peermap.New(Wire(d.seenLocked(peering.Member{Group: name})), d.version, before)
}

// Map returns the peer map of the members of a group of workloads.
func (d *Directory) Map(groupName string) *peermap.Map {
	d.mu.RLock()
	one, made := d.maps[groupName]
	d.mu.RUnlock()
	if made {
		return one
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if one, made = d.maps[groupName]; !made {
		one = d.makeLocked(groupName, nil)
		if _, exists := d.specs[groupName]; exists || len(d.members[groupName]) > 0 {
			d.maps[groupName] = one
		}
	}
	return one
}

// Peers returns the peer map of one member, with the version of all maps.
func (d *Directory) Peers(groupName, slot string) ([]peering.Peer, uint64) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	self := peering.Member{Group: groupName, Slot: slot, Coordinator: groupName == peering.CoordinatorGroup}
	return d.seenLocked(self), d.version
}

// InitialPeers returns the peer map for a newly admitted Slot.
func (d *Directory) InitialPeers(groupName, slot string) []*controlv1.Peer {
	return d.Map(groupName).Whole(slot)
}

// Spec returns the last valid spec of a group.
func (d *Directory) Spec(name string) (group.Spec, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	spec, ok := d.specs[name]
	return spec, ok
}

// Knows reports whether the group has a valid spec.
func (d *Directory) Knows(name string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, ok := d.specs[name]
	return ok
}

// VersionOf returns the version of a group's peer map; 0 until the map is first requested.
func (d *Directory) VersionOf(groupName string) uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if one, made := d.maps[groupName]; made {
		return one.Version
	}
	return 0
}

// relations are the groups that share a port or a route with a group, by both names.
type relations map[string]Scope

func relationsOf(rules peering.Rules) relations {
	out := relations{}
	add := func(a, b string) {
		if out[a] == nil {
			out[a] = Scope{}
		}
		out[a][b] = struct{}{}
	}
	for server := range rules.Specs {
		for _, client := range rules.Clients(server) {
			add(server, client)
			add(client, server)
		}
	}
	return out
}

// around returns groups together with all groups related to one of them.
func (r relations) around(groups Scope) Scope {
	out := maps.Clone(groups)
	for name := range groups {
		maps.Copy(out, r[name])
	}
	return out
}
