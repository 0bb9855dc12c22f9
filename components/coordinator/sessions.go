package coordinator

import (
	"context"
	"fmt"
	"net"
	"slices"

	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/selfheal"
	"cadre.dev/coordinator/internal/xds"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
	"cadre.dev/overlaystatus"
)

// assembleConsulProxy creates the members' proxy to Consul.
func (c *Coordinator) assembleConsulProxy(consulAddress string) {
	c.consulProxy = consulproxy.New(consulproxy.Config{
		Consul: consulAddress, Datacenter: c.cfg.Datacenter, Tokens: c.issuer, Holds: c.holds, Now: c.deps.Now, Log: c.log,
	})
}

// holds reports whether a Boot holds the Slot now.
func (c *Coordinator) holds(slot, boot string) bool {
	v, _ := c.views.Latest()
	return v.Admitted(slot, boot)
}

// assembleXDS creates the relay for the configuration of members' proxies.
func (c *Coordinator) assembleXDS(consulAddress string) {
	c.xds = xds.New(xds.Config{
		Consul: consulAddress, Coordinator: c.cfg.Slot, BootID: c.identity.BootID(), Simulated: c.cfg.Trust.AllowSimulated,
		Tokens: c.issuer, Proxies: c.proxies, Holds: c.holds, Now: c.deps.Now, Log: c.log,
	})
	c.metrics.Gauge("cadre_xds_streams", "Open streams of members' proxies.", func() float64 { return float64(c.xds.Streams()) })
}

// proxies returns the proxies that each member of a group may be. While the group's record cannot
// be read, it uses the last readable one.
func (c *Coordinator) proxies(name string) []xds.Identity {
	v, _ := c.views.Latest()
	if v == nil {
		return nil
	}
	return xds.Identities(c.directory.ServiceMesh(v, name))
}

// serveConsulProxy serves one connection of a member at the Consul proxy. Coordinators have their
// own Consul.
func (c *Coordinator) serveConsulProxy(ctx context.Context, peer overlay.Peer, conn net.Conn) {
	if peer.ID.Group == peering.CoordinatorGroup {
		_ = conn.Close()
		return
	}
	c.consulProxy.Serve(ctx, consulproxy.Caller{Group: peer.ID.Group, Slot: peer.ID.Slot, Boot: peer.BootID}, conn)
}

// serveXDS serves one connection of a member's proxies. Coordinators have none.
func (c *Coordinator) serveXDS(ctx context.Context, peer overlay.Peer, conn net.Conn) {
	if peer.ID.Group == peering.CoordinatorGroup {
		_ = conn.Close()
		return
	}
	c.xds.Serve(ctx, xds.Caller{Group: peer.ID.Group, Slot: peer.ID.Slot, Boot: peer.BootID}, conn)
}

func (c *Coordinator) assembleOverlay() error {
	node, err := overlay.New(overlay.Config{
		Self:    overlay.ID{Cluster: c.cfg.Cluster, Group: peering.CoordinatorGroup, Slot: c.cfg.Slot},
		SelfVIP: c.cfg.vip(), Listen: c.cfg.SessionListen, Gateway: c.cfg.Gateway, Log: c.log,
		Rendezvous: c.cfg.Rendezvous, Paths: c.cfg.Paths,
		Private:        group.PrivatePorts(c.cfg.APIListen, c.cfg.StatusListen, c.cfg.SessionListen),
		ServeAdmission: c.serveAdmission, OnControl: c.onControl,
		Serve: map[uint16]func(context.Context, overlay.Peer, net.Conn){group.ConsulHTTPPort: c.serveConsulProxy, group.ConsulXDSPort: c.serveXDS},
	})
	if err != nil {
		return fmt.Errorf("make overlay node: %w", err)
	}
	c.node = node
	c.assembleHealer()
	c.metrics.Add(overlaystatus.NewCollector(func() overlaystatus.Node { return node }))
	if err := c.renew(); err != nil {
		return err
	}
	c.setPeers()
	return nil
}

// assembleHealer makes the Healer, which starts other coordinators that the platform reports as stopped.
func (c *Coordinator) assembleHealer() {
	c.healer = selfheal.New(selfheal.Config{
		Cluster: c.cfg.Cluster, AppID: c.info.AppID, Slot: c.cfg.Slot, Replicas: c.cfg.Replicas,
		Platform: c.deps.Platform, Views: c.views, Called: c.metrics.Call, Now: c.deps.Now, Log: c.log,
		Connected: func() map[string]bool {
			slots := map[string]bool{}
			for _, slot := range c.connected() {
				slots[slot] = true
			}
			return slots
		},
	})
}

// connected lists the other coordinators to which a session is open, sorted.
func (c *Coordinator) connected() (slots []string) {
	for _, s := range c.node.Sessions() {
		if s.Peer.Group == peering.CoordinatorGroup && s.BootID != "" {
			slots = append(slots, s.Peer.Slot)
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// onControl serves an agent's control session, or talks to another coordinator.
func (c *Coordinator) onControl(ctx context.Context, peer overlay.Peer, conns overlay.ControlConns) {
	if peer.ID.Group == peering.CoordinatorGroup {
		c.keeper.OnControl(ctx, peer, conns)
		return
	}
	if !c.hasRecords() {
		// An agent of a lost cluster: no record says yet whether its Boot holds its Slot. It retries.
		_ = conns.First.Close()
		return
	}
	c.control.OnControl(ctx, peer, conns)
}
