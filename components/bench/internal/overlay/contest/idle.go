package contest

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"cadre.dev/bench/internal/overlay/certs"
	"cadre.dev/bench/internal/overlay/ours"
	"cadre.dev/bench/internal/overlay/place"
	"cadre.dev/overlay"
)

const (
	// idlePeers is the number of counted Peers. A few more come first, so that one-time allocations
	// of the process do not count.
	idlePeers  = 100
	firstPeers = 10
	// idleTime is how long Sessions idle before memory is measured.
	idleTime = 3 * time.Second
)

// idlePeer is the memory of a node for each Peer that it has an idle Session
// with, as the kernel counts it. All its Peers are in one other process.
func idlePeer(w ways) measurement {
	return func(ctx context.Context, r *rig, _ pace) (float64, map[string]float64, error) {
		hub, hubCert, err := r.node("spiffe://" + cluster + "/worker/zz-hub")
		if err != nil {
			return 0, nil, err
		}
		c, err := place.NewCable(ctx)
		if err != nil {
			return 0, nil, err
		}
		r.also(c.Close)
		if w.rendezvous() {
			if hub.Rendezvous, err = r.rendezvous(ctx, site{c.B, c.AddrServer}); err != nil {
				return 0, nil, err
			}
		}
		hub.Address = netip.AddrPortFrom(c.AddrA, sessionPort).String()
		hub.VIP, hub.Listen, hub.Carriers = netip.AddrFrom4([4]byte{127, 51, 0, 1}), hub.Address, w
		node, err := r.start(ctx, c.A, "node", hub)
		if err != nil {
			return 0, nil, err
		}
		join := func(from, to int) (ours.Memory, error) {
			crowd, err := r.crowd(&hub, hubCert, w, from, to)
			if err != nil {
				return ours.Memory{}, err
			}
			if err := node.Call(ctx, "peers", hub.Peers, nil); err != nil {
				return ours.Memory{}, err
			}
			if _, err := r.start(ctx, c.B, "crowd", crowd); err != nil {
				return ours.Memory{}, err
			}
			if err := node.Call(ctx, "await", ours.Await{Carriers: w, Within: 3 * linkTime}, nil); err != nil {
				return ours.Memory{}, err
			}
			if err := wait(ctx, idleTime); err != nil {
				return ours.Memory{}, err
			}
			return ask[ours.Memory](ctx, node, "memory")
		}
		before, err := join(0, firstPeers)
		if err != nil {
			return 0, nil, err
		}
		after, err := join(firstPeers, firstPeers+idlePeers)
		if err != nil {
			return 0, nil, err
		}
		each := func(a, b int64) float64 { return float64(b-a) / 1024 / idlePeers }
		return each(before.Resident, after.Resident), map[string]float64{
			"heap_kib": each(before.Heap, after.Heap), "stack_kib": each(before.Stack, after.Stack),
			"goroutines": float64(after.Goroutines-before.Goroutines) / idlePeers,
		}, nil
	}
}

// crowd makes nodes number from to number to, which dial the hub, and adds them
// to the hub's peers.
func (e env) crowd(hub *ours.Node, hubCert certs.Pair, w ways, from, to int) ([]ours.Node, error) {
	var all []ours.Node
	for i := from; i < to; i++ {
		n, cert, err := e.node(fmt.Sprintf("spiffe://%s/worker/a-%d", cluster, i))
		if err != nil {
			return nil, err
		}
		n.VIP, n.Listen, n.Carriers, n.Address = netip.AddrFrom4([4]byte{127, 51, 1, byte(i)}), ":0", w, hub.Address
		n.Rendezvous = hub.Rendezvous
		n.Peers = []ours.Peer{{ID: hub.ID, Boot: overlay.BootID(hubCert.Leaf), Instance: "hub", VIP: hub.VIP}}
		all = append(all, n)
		hub.Peers = append(hub.Peers, ours.Peer{ID: n.ID, Boot: overlay.BootID(cert.Leaf), Instance: "crowd", VIP: n.VIP})
	}
	return all, nil
}
