package reports_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestHealthUsesTheRightChecks: rollouts use the workload and the Envoys of its backends. Discovery of the
// member uses the workload alone. Neither uses informative checks.
func TestHealthUsesTheRightChecks(t *testing.T) {
	const well, ill, unknown = controlv1.Health_HEALTH_HEALTHY, controlv1.Health_HEALTH_UNHEALTHY, controlv1.Health_HEALTH_UNKNOWN
	for name, c := range map[string]struct {
		spec, backend, calls controlv1.Health
		rollout, workload    rollout.Health
		live                 bool
	}{
		"all is well":                  {well, well, well, rollout.Healthy, rollout.Healthy, true},
		"the workload is not":          {ill, well, well, rollout.Unhealthy, rollout.Unhealthy, true},
		"a backend cannot be reached":  {well, ill, well, rollout.Unhealthy, rollout.Healthy, false},
		"its envoy starts":             {well, unknown, well, rollout.Unknown, rollout.Healthy, false},
		"nothing can be called":        {well, well, ill, rollout.Healthy, rollout.Healthy, true},
		"what is called is not there":  {well, well, unknown, rollout.Healthy, rollout.Healthy, true},
		"only the workload is unknown": {unknown, well, ill, rollout.Unknown, rollout.Unknown, true},
	} {
		r := reports.New(time.Now)
		r.Put("pg-0", "b007", &controlv1.Report{
			MemberKnown: true, Member: &controlv1.MemberView{Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true}, Faults: []string{"old"},
			Checks: []*controlv1.CheckResult{
				{Name: "ready", Health: c.spec},
				{Name: "proxy:pg-pg-sidecar-proxy", Health: c.backend},
				{Name: "proxy:pg-sidecar-proxy", Health: c.calls, Informative: true, Message: "it waits"},
			},
		})
		got, _ := r.Of("pg-0")
		if seen := got.Observed(); seen.Health != c.rollout || got.Workload() != c.workload || got.Live("pg-pg-sidecar-proxy") != c.live || got.Live("pg-api-sidecar-proxy") {
			t.Errorf("%s: rollouts see %s, discovery %s, the proxy is live: %v", name, seen.Health, got.Workload(), got.Live("pg-pg-sidecar-proxy"))
		}
		// An operator must see the fault, and the agent's own report stays unchanged.
		if want := []string{"old", "proxy:pg-sidecar-proxy: it waits"}; !slices.Equal(got.Observed().Faults, want) || len(got.Report.GetFaults()) != 1 {
			t.Errorf("%s: faults %q", name, got.Observed().Faults)
		}
	}
}
