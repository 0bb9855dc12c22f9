package agent

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/core/rollout"
	"cadre.dev/overlaystatus"
)

// collector reads all figures when it is asked, so that none can be stale.
type collector struct{ a *Agent }

var (
	descAdmitted = desc("admitted", "1 once this boot is admitted.")
	descExpires  = desc("credentials_expire_timestamp_seconds", "When the present credentials expire.")
	descSessions = desc("control_sessions", "Coordinators that this agent is connected to.")
	descTerm     = desc("term", "Highest leader term seen.")
	descKnown    = desc("member_known", "1 while the driver answers.")
	descReady    = desc("member_ready", "1 while the member may receive traffic of its role.")
	descRole     = desc("member_role", "1 for the role that the member has.", "role")
	descEpoch    = desc("member_epoch", "Raft term or timeline of the member.")
	descLag      = desc("member_lag_bytes", "Bytes behind the leader; absent when not known.")
	descCheck    = desc("health_check", "1 for the health that the check has.", "check", "health")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cadre_agent_"+name, help, labels, nil)
}

func (a *Agent) gatherer() prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{a}, overlaystatus.NewCollector(a.overlayNode))
	all := prometheus.Gatherers{registry}
	if a.service != nil {
		registry.MustRegister(a.service.routes.Collector())
		all = append(all, a.service.envoys)
	}
	return all
}

func (a *Agent) metricsHandler() http.Handler {
	return promhttp.HandlerFor(a.gatherer(), promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// overlayNode is the overlay's node once this Boot is admitted, nil before.
func (a *Agent) overlayNode() overlaystatus.Node {
	if node := a.node.Load(); node != nil {
		return node
	}
	return nil
}

func (a *Agent) overlayServer() overlaystatus.Server {
	return overlaystatus.Server{Node: a.overlayNode}
}

// Describe sends nothing: labels vary, the collector is unchecked.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads all figures.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	admitted, _ := c.a.admitted.Get()
	gauge(descAdmitted, truth(admitted != nil))
	if admitted != nil {
		gauge(descExpires, float64(admitted.ExpiresAt.Unix()))
	}
	sessions, _ := c.a.hub.Sessions().Get()
	gauge(descSessions, float64(sessions))
	gauge(descTerm, float64(c.a.hub.Term()))
	state := c.a.member.State()
	gauge(descKnown, truth(state.Known))
	gauge(descReady, truth(state.View.Ready))
	gauge(descEpoch, float64(state.View.Epoch))
	for _, r := range []driver.Role{driver.RoleLeader, driver.RoleFollower, driver.RoleLearner, driver.RoleNone, driver.RoleUnknown} {
		gauge(descRole, truth(state.View.Role == r), string(r))
	}
	if lag := state.View.LagBytes; lag != nil {
		gauge(descLag, float64(*lag))
	}
	for _, check := range c.a.checks() {
		for _, h := range []rollout.Health{rollout.Healthy, rollout.Unhealthy, rollout.Unknown} {
			gauge(descCheck, truth(check.Health == h), check.Name, string(h))
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
