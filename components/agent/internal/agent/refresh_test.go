package agent

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestARefreshOfChecksIsReportedWithoutALapse: once a member is healthy, no report contradicts that
// because its checks changed. The first report that names the new Revision has the new checks.
func TestARefreshOfChecksIsReportedWithoutALapse(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	open := server.Listener.Addr().(*net.TCPAddr).Port
	check := func(name string, port, interval int) group.HealthCheck {
		return group.HealthCheck{Name: name, TCP: &group.TCPCheck{Port: port}, CheckIntervalSec: interval}
	}
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	order := func(version uint64, agentSpec string, checks ...group.HealthCheck) {
		c.Order(&controlv1.Desired{Version: version, Term: 1, ConfigJson: config(t, group.AgentConfig{
			Workload: group.Workload{Kind: "none"}, HealthChecks: checks, AgentSpec: agentSpec,
		})})
	}
	order(1, "one", check("a", open, 10))
	newTestAgent(t, w).start()
	agenttest.Eventually(t, soon, "it is healthy", func() bool { return c.Last().GetHealthyFor().AsDuration() > 0 })
	before := len(c.Reports())

	const closed = 1 // listens there: it takes minutes until that counts
	order(2, "two", check("a", open, 20), check("b", closed, 300))
	agenttest.Eventually(t, soon, "it goes by the new ones", func() bool { return c.Last().GetAgentSpec() == "two" })
	order(3, "three", check("c", open, 10))
	agenttest.Eventually(t, soon, "the third is judged", func() bool {
		r := c.Last()
		return r.GetAgentSpec() == "three" && !r.GetChecks()[0].GetPending() && r.GetChecks()[0].GetHealth() == controlv1.Health_HEALTH_HEALTHY
	})
	for _, r := range c.Reports()[before:] {
		checks := map[string]*controlv1.CheckResult{}
		for _, one := range r.GetChecks() {
			checks[one.GetName()] = one
			if one.GetHealth() != controlv1.Health_HEALTH_HEALTHY && !one.GetPending() {
				t.Errorf("by %s: %v", r.GetAgentSpec(), one)
			}
		}
		if r.GetHealthyFor().AsDuration() == 0 {
			t.Errorf("by %s it is not healthy: %v", r.GetAgentSpec(), r)
		}
		if r.GetAgentSpec() == "two" && (len(checks) != 2 && len(checks) != 1 || checks["a"] != nil && checks["b"] == nil) || r.GetAgentSpec() == "three" && checks["c"] == nil {
			t.Errorf("by %s it has the checks of before: %v", r.GetAgentSpec(), checks)
		}
	}
}
