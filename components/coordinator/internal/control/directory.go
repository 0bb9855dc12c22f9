package control

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"sync"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Directory is who is in the cluster now, as the peer maps are made of it. Safe
// for concurrent use.
type Directory struct {
	mu      sync.Mutex
	members []peering.Member      // guarded by mu
	specs   map[string]group.Spec // guarded by mu; last valid spec of each group
	known   known                 // guarded by mu; last readable records of each Slot
	digest  [32]byte              // guarded by mu
	version uint64                // guarded by mu
}

// Update takes a View and the coordinators; it reports whether anything that a
// peer map depends on changed. The version is the index at which the present
// content was first seen: it grows with each change on every coordinator. A member
// whose records exist and cannot be read stays who it was.
func (d *Directory) Update(v *view.View, coordinators []peering.Member) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.specs == nil {
		d.specs = map[string]group.Spec{}
	}
	for name := range d.specs {
		_, exists := v.Specs[name]
		if _, accepted := v.Accepted[name]; !exists && !accepted {
			delete(d.specs, name)
		}
	}
	// An invalid edit, or the removal of a spec, changes nothing for those who run:
	// the last valid spec stays in force. It is in the records; what is remembered
	// here only bridges the moment until the leader has recorded it.
	maps.Copy(d.specs, v.SpecsInForce())
	d.known = d.known.next(v)
	d.members = append(append([]peering.Member(nil), coordinators...), d.known.members(v)...)
	digest := d.digestLocked()
	if digest == d.digest {
		return false
	}
	d.digest = digest
	d.version = max(v.Index, d.version+1)
	return true
}

// Peers is the peer map of one member, with its version.
func (d *Directory) Peers(groupName, slot string) ([]peering.Peer, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	self := peering.Member{Group: groupName, Slot: slot, Coordinator: groupName == peering.CoordinatorGroup}
	return peering.Map(self, d.members, d.specs), d.version
}

// InitialPeers is the peer map that a newly admitted Slot starts with.
func (d *Directory) InitialPeers(groupName, slot string) []*controlv1.Peer {
	peers, _ := d.Peers(groupName, slot)
	return Wire(peers)
}

// Spec is the last valid spec of a group.
func (d *Directory) Spec(name string) (group.Spec, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	spec, ok := d.specs[name]
	return spec, ok
}

// Version of the present content.
func (d *Directory) Version() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version
}

func (d *Directory) digestLocked() [32]byte {
	type ports struct {
		Workload group.Workload
		Backends []group.Backend
	}
	specs := map[string]ports{}
	for name, s := range d.specs {
		specs[name] = ports{Workload: s.Workload, Backends: s.Backends}
	}
	members := map[string]peering.Member{}
	for _, m := range d.members {
		members[m.Slot] = m
	}
	// Maps are encoded in key order, so equal content has equal text.
	text, err := json.Marshal([]any{members, specs})
	if err != nil {
		return [32]byte{}
	}
	return sha256.Sum256(text)
}
