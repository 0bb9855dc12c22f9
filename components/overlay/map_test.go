package overlay

import (
	"fmt"
	"net/netip"
	"testing"
)

// A node passes only changed entries on to their Peers.
func TestAMapThatChangesLittleCostsLittle(t *testing.T) {
	w := newWorld(t)
	a := w.node("db", "a", 1)
	const size = 500
	var peers []Peer
	for i := range size {
		peers = append(peers, Peer{
			ID: ID{Cluster: testCluster, Group: "web", Slot: fmt.Sprintf("web-%d", i)}, VIP: netip.AddrFrom4([4]byte{127, 51, byte(i / 250), byte(1 + i%250)}),
		})
	}
	a.SetPeers(peers)
	n := 0
	allocs := testing.AllocsPerRun(20, func() {
		n++
		peers[7].InstanceID = fmt.Sprint(n)
		a.SetPeers(peers)
	})
	if allocs > size/2 {
		t.Errorf("one changed entry of %d costs %.0f allocations", size, allocs)
	}
}
