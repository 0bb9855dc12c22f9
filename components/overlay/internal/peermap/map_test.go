package peermap

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"cadre.dev/overlay/internal/identity"
)

const cluster = "test.cadre"

func id(group, slot string) identity.ID {
	return identity.ID{Cluster: cluster, Group: group, Slot: slot}
}

// entry is a Peer that can be in a map.
func entry(group, slot string) Peer {
	return Peer{ID: id(group, slot), VIP: netip.AddrFrom4([4]byte{127, 50, 0, 1}), Coordinator: group == CoordinatorGroup}
}

func self(of identity.ID) *Self {
	return &Self{ID: of, OnDemand: true, Log: slog.New(slog.DiscardHandler)}
}

func TestDialingSide(t *testing.T) {
	for _, c := range []struct {
		self identity.ID
		peer Peer
		want bool
	}{
		{id("db", "db-0"), entry("db", "db-1"), true},
		{id("db", "db-1"), entry("db", "db-0"), false},
		{id("db", "z-9"), entry(CoordinatorGroup, "coordinator-0"), true},
		{id("db", "a-0"), entry(CoordinatorGroup, "coordinator-0"), true},
		{id(CoordinatorGroup, "coordinator-0"), entry("db", "z-9"), false},
		{id(CoordinatorGroup, "coordinator-0"), entry(CoordinatorGroup, "coordinator-1"), true},
		{id(CoordinatorGroup, "coordinator-1"), entry(CoordinatorGroup, "coordinator-0"), false},
	} {
		if got := self(c.self).Read(nil, Map{}).Facts(c.peer).Dials; got != c.want {
			t.Errorf("%s dials %s: got %v, want %v", c.self.Slot, c.peer.ID.Slot, got, c.want)
		}
	}
}

func TestWhichSessionsAreKept(t *testing.T) {
	db := id("db", "db-0")
	for name, c := range map[string]struct {
		self    identity.ID
		off     bool
		peer    Peer
		members int // of the node's group in its map
		want    bool
	}{
		"small group":            {self: db, peer: entry("db", "db-1"), members: WarmGroup - 1},
		"large group":            {self: db, peer: entry("db", "db-1"), members: WarmGroup, want: true},
		"another group":          {self: db, peer: entry("web", "web-1"), members: 2, want: true},
		"coordinator":            {self: db, peer: entry(CoordinatorGroup, "coordinator-0"), members: WarmGroup},
		"not asked for":          {self: db, off: true, peer: entry("web", "web-1"), members: WarmGroup},
		"coordinators keep them": {self: id(CoordinatorGroup, "coordinator-0"), peer: entry("web", "web-1")},
	} {
		s := self(c.self)
		s.OnDemand = !c.off
		var peers []Peer
		for i := range c.members {
			peers = append(peers, entry(c.self.Group, fmt.Sprintf("%s-%d", c.self.Group, i+1)))
		}
		if got := s.Read(peers, Map{}).Facts(c.peer).OnDemand; got != c.want {
			t.Errorf("%s: on demand %v, want %v", name, got, c.want)
		}
	}
}

// A Boot that the map drops is reported until the map names it again, and the list is
// bounded.
func TestRevokedBoots(t *testing.T) {
	s := self(id(CoordinatorGroup, "coordinator-0"))
	with := func(boots ...string) Map {
		var peers []Peer
		for i, boot := range boots {
			p := entry("db", fmt.Sprintf("db-%d", i))
			p.BootID = boot
			peers = append(peers, p)
		}
		return s.Read(peers, Map{})
	}
	first, second := with("a", "b"), with("a", "c")
	revoked := first.Revoked(nil, second)
	if !slices.Equal(revoked, []string{"b"}) {
		t.Errorf("revoked %v, want b", revoked)
	}
	if revoked = second.Revoked(revoked, with("b")); !slices.Equal(slices.Sorted(slices.Values(revoked)), []string{"a", "c"}) {
		t.Errorf("revoked %v, want a and c", revoked)
	}
	many := make([]string, maxRevoked+10)
	for i := range many {
		many[i] = fmt.Sprint("boot-", i)
	}
	if got := len(with(many...).Revoked(revoked, with())); got != maxRevoked {
		t.Errorf("%d boots are reported, want %d", got, maxRevoked)
	}
}
