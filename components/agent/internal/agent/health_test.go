package agent

import (
	"testing"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestTheEnvoyForCallsIsInformative: another group's spec makes a member run this Envoy. The
// Envoy before a backend counts: no client reaches the backend without it.
func TestTheEnvoyForCallsIsInformative(t *testing.T) {
	t.Parallel()
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	order := func(version uint64, proxies ...group.Proxy) {
		c.Order(&controlv1.Desired{Version: version, Term: 3, ConfigJson: config(t, group.AgentConfig{
			Workload: group.Workload{Kind: "none"}, ServiceMesh: group.ServiceMesh{Group: "web", Proxies: proxies},
		})})
	}
	calls := group.Proxy{ID: "web-sidecar-proxy", Service: "web"}
	order(10, calls)
	a := newTestAgent(t, w)
	a.cfg.XDS, a.cfg.Envoy = "127.0.0.1:0", "/nowhere/envoy"
	a.start()
	down := func(name string, informative bool) bool {
		for _, check := range c.Last().GetChecks() {
			if check.GetName() == name {
				return check.GetHealth() == controlv1.Health_HEALTH_UNHEALTHY && check.GetMessage() != "" && check.GetInformative() == informative
			}
		}
		return false
	}
	agenttest.Eventually(t, soon, "the check is reported, and the member is healthy", func() bool {
		return down("proxy:web-sidecar-proxy", true) && c.Last().GetHealthyFor().AsDuration() > 0
	})
	order(11, calls, group.Proxy{ID: "web-api-sidecar-proxy", Service: "web-api", Backend: "api", Port: 20000, LocalPort: 80})
	agenttest.Eventually(t, soon, "a backend's counts", func() bool {
		return down("proxy:web-api-sidecar-proxy", false) && c.Last().GetHealthyFor().AsDuration() == 0
	})
}
