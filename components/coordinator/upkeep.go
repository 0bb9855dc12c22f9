package coordinator

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/status"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/secret"
	"cadre.dev/overlay"
)

// renewEvery is a third of the certificates' life: two renewals may fail.
const renewEvery = keys.LeafTTL / 3

// callerTransport is shared by the clients that act with callers' tokens.
var callerTransport http.RoundTripper = &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute}

// genesisRetry is the interval of the first steps, which need an elected Consul leader.
const genesisRetry = 2 * time.Second

// genesis configures Consul for Cadre after its first election. Every coordinator does it at each
// start; each step is idempotent.
func (c *Coordinator) genesis(ctx context.Context) error {
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"cluster_id", c.confirm},
		{"agent token", c.giveConsulToken},
		{"autopilot", func(ctx context.Context) error { return c.issuer.EnsureMinQuorum(ctx, uint(c.cfg.Replicas)) }},
	}
	for _, step := range steps {
		if ready, err := c.insist(ctx, step.name, step.do); err != nil || !ready {
			return err
		}
	}
	c.log.Info("consul is ready")
	return c.renewConsulToken(ctx)
}

// insist retries a step until it succeeds: ready. It returns an error that must not be retried.
func (c *Coordinator) insist(ctx context.Context, name string, do func(context.Context) error) (ready bool, err error) {
	last := ""
	for {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := do(call)
		cancel()
		if err == nil {
			return true, nil
		}
		if _, final := errors.AsType[*bootstrap.HaltError](err); final {
			return false, err
		}
		// A repeated error is not logged again.
		if text := err.Error(); text != last && ctx.Err() == nil {
			c.log.Info("consul is not ready yet", "step", name, "error", err)
			last = text
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(genesisRetry):
		}
	}
}

// giveMeshCA makes Consul's service mesh use the CA that all coordinators derive.
func (c *Coordinator) giveMeshCA(ctx context.Context) error {
	mesh := c.consulConfig(secret.Value{})
	_, err := c.insist(ctx, "service mesh", func(ctx context.Context) error {
		return supervise.EnsureMeshCA(ctx, mesh.Address(), c.root.ManagementToken(), mesh.ServiceMesh, c.root.Connect().Key())
	})
	return err
}

// consulTokenEvery is a third of the token's life: two renewals may fail.
const consulTokenEvery = tokens.CoordinatorTTL / 3

// renewConsulToken replaces the Consul server's token well before it expires.
func (c *Coordinator) renewConsulToken(ctx context.Context) error {
	wait := consulTokenEvery
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = consulTokenEvery
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := c.giveConsulToken(call)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.log.Warn("consul's own token not renewed, the coordinator retries", "error", err)
			wait = genesisRetry * 5
		}
	}
}

// giveConsulToken issues a token for the own Consul server and makes the server use it, now and at
// its next start. The previous token is revoked only with the next renewal, so calls in flight
// succeed.
func (c *Coordinator) giveConsulToken(ctx context.Context) error {
	token, err := c.issuer.Coordinator(ctx, c.cfg.Slot, c.identity.BootID(), c.cfg.Trust.AllowSimulated)
	if err != nil {
		return err
	}
	if err := errors.Join(c.consul.SetAgentToken(secret.FromString(token.Secret)), c.issuer.UseAgentToken(ctx, token.Secret)); err != nil {
		return errors.Join(err, c.issuer.Revoke(ctx, token.Accessor))
	}
	c.consulTokens = append(c.consulTokens, token.Accessor)
	cut := max(0, len(c.consulTokens)-2)
	if err := c.issuer.Revoke(ctx, c.consulTokens[:cut]...); err != nil {
		c.log.Warn("old token of consul not revoked; it expires", "error", err)
	}
	c.consulTokens = c.consulTokens[cut:]
	return nil
}

// relocate records that a coordinator was found at another location.
func (c *Coordinator) relocate() {
	select {
	case c.relocated <- struct{}{}:
	default:
	}
}

// staleAgain is the pause before the next check why the records do not name a Boot.
const staleAgain = time.Second

// followPeers updates the overlay's peer map from the records, and notifies the agents whose maps
// changed.
func (c *Coordinator) followPeers(ctx context.Context) error {
	records := c.views.Subscribe()
	defer records.Close()
	unknown := false // the state of some Boots is unknown: all are checked again
	for {
		v, changed := records.Take()
		scope := control.ScopeOf(changed.All, changed.Groups)
		if v == nil {
			v = &view.View{}
		}
		stale, again := scope, make(<-chan time.Time)
		if unknown {
			stale = nil
		}
		// A Boot that lost its Slot is notified before the overlay cuts it off.
		if unknown = !c.control.EndStale(ctx, v, stale); unknown {
			again = time.After(staleAgain)
		}
		c.xds.Recheck()
		if groups := c.directory.Update(v, c.peers.Members(), scope); len(groups) > 0 {
			c.setPeers()
			c.control.WakeGroups(groups)
		}
		// This ends the streams of Boots that lost their Slots, and of removed proxies.
		c.xds.Recheck()
		select {
		case <-ctx.Done():
			return nil
		case <-records.C():
		case <-c.relocated:
		case <-again:
		}
	}
}

// setPeers sets this coordinator's own peer map in the overlay.
func (c *Coordinator) setPeers() {
	peers, _ := c.directory.Peers(peering.CoordinatorGroup, c.cfg.Slot)
	out := make([]overlay.Peer, 0, len(peers))
	for _, p := range peers {
		vip, err := netip.ParseAddr(p.VIP)
		if err != nil {
			c.log.Error("peer without a usable address", "slot", p.Slot, "error", err)
			continue
		}
		out = append(out, overlay.Peer{
			ID:     overlay.ID{Cluster: c.cfg.Cluster, Group: p.Group, Slot: p.Slot},
			BootID: p.BootID, InstanceID: p.InstanceID, VIP: vip,
			Offers: portRefs(p.Offers), Accepts: portRefs(p.Accepts), Coordinator: p.Coordinator,
		})
	}
	c.node.SetPeers(out)
}

func portRefs(ports []peering.Port) []overlay.PortRef {
	out := make([]overlay.PortRef, 0, len(ports))
	for _, p := range ports {
		out = append(out, overlay.PortRef{Protocol: overlay.Protocol(p.Protocol), Port: p.Number, Loopback: p.Loopback})
	}
	return out
}

// renewCredentials replaces the SVID well before it expires.
func (c *Coordinator) renewCredentials(ctx context.Context) error {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.renew(); err != nil {
			c.log.Error("own certificate not renewed", "error", err)
		}
	}
}

func (c *Coordinator) renew() error {
	cert, err := c.identity.Certificate(c.deps.Now())
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.cert = cert
	c.mu.Unlock()
	c.node.SetCredentials(overlay.Credentials{Certificate: cert, Roots: c.root.CA().Pool()})
	return nil
}

func (c *Coordinator) certificate() (tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cert, nil
}

func (c *Coordinator) health() status.Health {
	out := status.Health{Slot: c.cfg.Slot, Records: c.views.Readable(), Halted: c.reconcile.Halted()}
	if v, _ := c.views.Latest(); v != nil {
		out.Leader, out.Term = v.Leader, v.Term
	}
	return out
}
