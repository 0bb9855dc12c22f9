package agent

import (
	"context"
	"net"

	"cadre.dev/agent/internal/door"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

func (a *Agent) runDoor(ctx context.Context) error {
	if a.cfg.Consul == "" {
		return nil
	}
	return a.door.Run(ctx)
}

// openDoor has the workloads' Consul requests carried to coordinators from now on.
func (a *Agent) openDoor(slot string) {
	node := a.node.Load()
	a.door.Open(door.Way{
		Self: slot, Coordinators: a.coordinators,
		Dial: func(ctx context.Context, id overlay.ID) (net.Conn, error) {
			return node.DialService(ctx, id, group.ConsulHTTPPort)
		},
	})
}

// coordinators are those of the peer map.
func (a *Agent) coordinators() []door.Coordinator {
	up := map[overlay.ID]bool{}
	for _, s := range a.node.Load().Sessions() {
		up[s.Peer] = s.State == overlay.SessionUp
	}
	var out []door.Coordinator
	list, _ := a.peers.Get()
	for _, p := range list {
		if p.Coordinator {
			out = append(out, door.Coordinator{ID: p.ID, Up: up[p.ID]})
		}
	}
	return out
}
