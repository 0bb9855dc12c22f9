package agent

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// The agent's metrics include its processes for the service layer.
func TestFiguresOfTheServiceLayer(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	l, err := net.Listen("tcp", "127.10.251.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.Order(&controlv1.Desired{Version: 10, Term: 3, ConfigJson: config(t, group.AgentConfig{
		Workload: group.Workload{Kind: "none"},
		ServiceMesh: group.ServiceMesh{
			Proxies: []group.Proxy{{ID: "web-sidecar-proxy", Service: "web"}},
			Routes: []group.RouteTo{{
				Name: "master", Group: "db", Role: "leader", VIP: netip.MustParseAddr("127.10.251.1"), Port: port, Hold: group.Duration(time.Second),
			}},
		},
	})})
	a := newTestAgent(t, w)
	a.cfg.XDS, a.cfg.Envoy = "127.0.0.1:0", "/nowhere/envoy"
	a.start()
	for _, want := range []string{
		`cadre_route_served{group="db",route="master"} 1`, `cadre_route_open_connections{group="db",route="master"} 0`,
		`cadre_agent_envoy_live{proxy="web-sidecar-proxy"} 0`, "cadre_agent_admitted 1",
	} {
		agenttest.Eventually(t, soon, want, func() bool {
			_, body := a.call("GET", "/metrics", "")
			return strings.Contains(body, want)
		})
	}
}
