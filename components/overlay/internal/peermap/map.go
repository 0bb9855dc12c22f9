package peermap

import (
	"log/slog"
	"slices"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

// CoordinatorGroup is the Group of every coordinator's ID.
const CoordinatorGroup = "coordinator"

// WarmGroup is how many members the node's own group may have, itself among them, for
// their Sessions to be kept although Sessions are made on demand.
const WarmGroup = 16

// Self is the node that reads its map. Constant.
type Self struct {
	ID identity.ID
	// Private are ports of this machine that stay closed to every Peer, regardless of the map.
	Private []uint16
	// OnDemand has a worker keep Sessions only with coordinators and a small group of its own.
	OnDemand bool
	// Gateway: Peers may be dialled through a gateway. Finds: the node searches for paths.
	Gateway, Finds bool
	Log            *slog.Logger
}

// Coordinator reports whether this node is a coordinator.
func (s *Self) Coordinator() bool { return s.ID.Group == CoordinatorGroup }

// Controls reports whether Sessions with p may carry control connections.
func (s *Self) Controls(p Peer) bool { return s.Coordinator() || p.Coordinator }

// dials reports whether this side opens the Sessions with p: workers dial coordinators; among
// equals the lexically smaller Slot dials.
func (s *Self) dials(p Peer) bool {
	if s.Coordinator() != p.Coordinator {
		return p.Coordinator
	}
	return s.ID.Slot < p.ID.Slot
}

// onDemand reports whether a Session with p is made only for a waiting connection. small: the
// node's own group is small.
func (s *Self) onDemand(p Peer, small bool) bool {
	return s.OnDemand && !s.Coordinator() && !p.Coordinator && (!small || p.ID.Group != s.ID.Group)
}

// Map is one peer map as it applies to one node. The zero Map admits no Boot.
type Map struct {
	self  *Self
	peers map[identity.ID]*Peer // unchanged entries are shared with the previous map
	small bool                  // the node's own group is
}

// Read interprets a map. Entries for the node itself, for other clusters or with a VIP that is not
// IPv4 are left out, with a warning. Entries equal to the previous map's are not checked again:
// the map of a large cluster changes by a few entries at a time.
func (s *Self) Read(peers []Peer, before Map) Map {
	m := Map{self: s, peers: make(map[identity.ID]*Peer, len(peers))}
	for _, p := range peers {
		if p.ID == s.ID {
			continue
		}
		if known, is := before.peers[p.ID]; is && known.Equal(p) {
			m.peers[p.ID] = known
			continue
		}
		if err := p.check(s.ID); err != nil {
			s.Log.Warn("entry of the peer map ignored", "peer", p.ID, "error", err)
			continue
		}
		p.Offers, p.Accepts = slices.Clone(p.Offers), s.withoutPrivate(p)
		entry := p // made for those alone that are new
		m.peers[p.ID] = &entry
	}
	members := 1
	for id := range m.peers {
		if id.Group == s.ID.Group {
			members++
		}
	}
	m.small = members <= WarmGroup
	return m
}

// withoutPrivate returns the ports of this machine that the Peer may reach (OVL-08).
func (s *Self) withoutPrivate(p Peer) []PortRef {
	return slices.DeleteFunc(slices.Clone(p.Accepts), func(r PortRef) bool {
		private := slices.Contains(s.Private, r.Port)
		if private {
			s.Log.Error("the peer map opens a port of this node's own; it stays closed", "peer", p.ID, "protocol", r.Protocol, "port", r.Port)
		}
		return private
	})
}

// Changed returns the entries that are new or have another meaning than before, and the entries
// that are gone.
func (m Map) Changed(before Map) (changed, gone []Peer) {
	for id, p := range m.peers {
		if was, is := before.peers[id]; !is || was != p && !was.Equal(*p) || before.Facts(*was) != m.Facts(*p) {
			changed = append(changed, *p)
		}
	}
	for id, p := range before.peers {
		if _, left := m.peers[id]; !left {
			gone = append(gone, *p)
		}
	}
	return changed, gone
}

// Facts are the parts of an entry that package link needs.
func (m Map) Facts(p Peer) link.Facts {
	f := link.Facts{
		Dials: m.self.dials(p), Boot: p.BootID, AnyBoot: p.Coordinator, Finds: m.self.Finds,
		OnDemand: m.self.onDemand(p, m.small), Calls: m.self.onDemand(p, false),
	}
	if m.self.Gateway {
		f.Instance = p.InstanceID
	}
	return f
}

// SelfPorts are the ports at which this machine reaches itself by its own VIP: the TCP ports of
// 127.0.0.1 that a Peer serves at the same number, as members of one workload do. On them the node
// listens at Peers' VIPs already, so no workload can have them on all addresses.
func (m Map) SelfPorts() []uint16 {
	var out []uint16
	for _, p := range m.peers {
		for _, own := range p.Accepts {
			if own.Protocol == TCP && own.Loopback && own.Port != 0 && slices.Contains(p.Offers, PortRef{Protocol: TCP, Port: own.Port}) && !slices.Contains(out, own.Port) {
				out = append(out, own.Port)
			}
		}
	}
	return out
}

// Admits reports whether the map names this identity with that Boot.
func (m Map) Admits(who identity.Verified) bool {
	p, known := m.peers[who.ID]
	return known && m.Facts(*p).Admits(who.BootID)
}

// maxRevoked bounds the revoked Boots that a node reports to rendezvous servers. Certificates last
// for an hour; a server remembers the Boots that fall off a full list for longer.
const maxRevoked = 256

// Revoked returns before, the Boots that earlier maps dropped, with the Boots that next drops. A
// Boot that next names again is removed from the list, and so is never shut out.
func (m Map) Revoked(before []string, next Map) []string {
	revoked := slices.Clone(before)
	for id, p := range m.peers {
		if now, is := next.peers[id]; p.BootID != "" && (!is || now.BootID != p.BootID) {
			revoked = append(revoked, p.BootID)
		}
	}
	if len(revoked) == 0 {
		return nil
	}
	named := make(map[string]bool, len(revoked)) // of those
	for _, boot := range revoked {
		named[boot] = false
	}
	for _, p := range next.peers {
		if _, reported := named[p.BootID]; reported {
			named[p.BootID] = true
		}
	}
	revoked = slices.DeleteFunc(revoked, func(boot string) bool { return named[boot] })
	return revoked[max(0, len(revoked)-maxRevoked):]
}
