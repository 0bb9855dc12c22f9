package agent

import (
	"context"
	"net"

	"cadre.dev/agent/internal/consulproxy"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

func (a *Agent) runConsulProxy(ctx context.Context) error {
	if a.cfg.Consul == "" {
		return nil
	}
	return a.consulProxy.Run(ctx)
}

// openConsulProxy has the workloads' Consul requests carried to coordinators from now on.
func (a *Agent) openConsulProxy(slot string) {
	node := a.node.Load()
	a.consulProxy.Open(consulproxy.Way{
		Self: slot, Coordinators: a.coordinators,
		Dial: func(ctx context.Context, id overlay.ID) (net.Conn, error) {
			return node.DialService(ctx, id, group.ConsulHTTPPort)
		},
	})
}

// coordinators are those of the peer map.
func (a *Agent) coordinators() []consulproxy.Coordinator {
	up := map[overlay.ID]bool{}
	for _, s := range a.node.Load().Sessions() {
		up[s.Peer] = s.State == overlay.SessionUp
	}
	var out []consulproxy.Coordinator
	list, _ := a.peers.Get()
	for _, p := range list {
		if p.Coordinator {
			out = append(out, consulproxy.Coordinator{ID: p.ID, Up: up[p.ID]})
		}
	}
	return out
}
