package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/supervise"
)

const (
	// lonely is how long without any control session before the Boot asks again
	// at first contact for where the coordinators are.
	lonely = 2 * time.Minute
	// renewAt is the part of the credentials' life after which they are renewed.
	renewAt = 2.0 / 3
)

// take puts new credentials into force.
func (a *Agent) take(admitted admit.Admitted) {
	a.admitted.Set(&admitted)
	node := a.node.Load()
	node.SetCredentials(admitted.Credentials)
	list, _ := a.peers.Get()
	node.SetPeers(list)
	a.configureConsul(admitted)
	a.changed.Set(struct{}{})
}

func (a *Agent) configureConsul(admitted admit.Admitted) {
	c := admitted.Grant.GetConsul()
	vip, known := a.vipOf(admitted.ID.Slot)
	if c == nil || a.cfg.ConsulBinary == "" || !known {
		return
	}
	a.consul.Configure(supervise.Settings{
		NodeName: admitted.ID.Slot, Address: vip, Datacenter: c.GetDatacenter(),
		GossipKey: c.GetGossipKey(), AgentToken: c.GetAgentToken(),
		CAPEM: admitted.Grant.GetCaBundlePem(), CertPEM: c.GetTlsCertPem(), KeyPEM: c.GetTlsKeyPem(),
		ServerVIPs: c.GetServerVips(),
		NodeMeta:   map[string]string{"cadre_group": admitted.ID.Group, "cadre_cluster": admitted.ID.Cluster},
	})
}

// wantsConsul reports whether this Slot runs a Consul agent.
func (a *Agent) wantsConsul() bool {
	current, _ := a.admitted.Get()
	return current != nil && current.Grant.GetConsul() != nil && a.cfg.ConsulBinary != ""
}

// consulReady is true as well when there is no Consul agent to wait for.
func (a *Agent) consulReady() bool {
	ready, _ := a.consul.Ready().Get()
	current, _ := a.admitted.Get()
	return current != nil && (ready || !a.wantsConsul())
}

func (a *Agent) runConsul(ctx context.Context) error {
	return a.consul.Run(ctx)
}

// renew asks for admission again with the same Boot key: before the credentials
// expire, and when no coordinator can be found where they were.
func (a *Agent) renew(ctx context.Context) error {
	for {
		current, _ := a.admitted.Get()
		due, cancel := context.WithTimeoutCause(ctx, renewIn(time.Until(current.ExpiresAt)), errRenew)
		why := a.waitLonely(due)
		cancel()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // why is not an error, and ctx ended
		}
		a.cfg.Log.Info("admission is renewed", "slot", current.ID.Slot, "reason", why)
		admitted, err := a.admit.AdmitUntil(ctx)
		if err != nil {
			if ended, is := errors.AsType[*admit.EndedError](err); is {
				return a.withdraw(ended)
			}
			return nil // only ctx ends it
		}
		if admitted.ID != current.ID || admitted.Grant.GetVip() != current.Grant.GetVip() {
			return fmt.Errorf("admission now names this boot %s with another address; starting over", admitted.ID)
		}
		if sessions, _ := a.hub.Sessions().Get(); sessions == 0 {
			a.peers.Set(admitted.Peers)
		}
		a.take(admitted)
	}
}

var errRenew = fmt.Errorf("credentials are near their end")

// renewIn spreads renewals of Boots that were admitted together.
func renewIn(life time.Duration) time.Duration {
	if life <= 0 {
		return time.Second
	}
	at := time.Duration(float64(life) * renewAt)
	return at - rand.N(at/10+1) //nolint:gosec // jitter is no secret
}

// waitLonely returns when no control session was up for the time lonely, or with ctx.
func (a *Agent) waitLonely(ctx context.Context) (why error) {
	for {
		n, index := a.hub.Sessions().Get()
		var alone <-chan time.Time
		timer := time.NewTimer(lonely)
		if n == 0 {
			alone = timer.C
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-alone:
			return fmt.Errorf("no coordinator was connected for %s", lonely)
		case <-a.hub.Sessions().Changed(index):
			timer.Stop()
		}
	}
}
