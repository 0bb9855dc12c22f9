package health

import (
	"context"
	"slices"
	"time"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/rollout"
)

// Reports holds the workloads' own reports of their checks; *selfreport.Registry implements it.
type Reports interface {
	States() []selfreport.State
	Changes() *latestvalue.Value[struct{}]
}

// runReported judges by the workload's own reports, without thresholds. A missing report is a failure
// once a report would have expired, counted from the last report or from the begin of the check.
// For a check that was judged before, the registry has the time of its last report.
func (c *Checker) runReported(ctx context.Context, one *check) {
	spec, result := one.spec, c.resultOf(one)
	silent := time.NewTimer(seconds(spec.TTL.TTLSec, 1))
	defer silent.Stop()
	failsBySilence := result.Health != rollout.Unknown
	for {
		_, index := c.reports.Changes().Get()
		health, message := c.reportOf(spec.Name)
		switch {
		case health != rollout.Unknown:
			failsBySilence = true // the registry keeps the time of a report
		case failsBySilence:
			health, message = rollout.Unhealthy, "the workload has not reported for "+seconds(spec.TTL.TTLSec, 1).String()
		}
		before := result
		if result.enter(health, time.Now().UTC()); health != before.Health {
			c.log.Info("health check changed", "check", spec.Name, "health", health, "reason", message)
		}
		if result.Message = message; result != before {
			c.put(one, result)
		}
		select {
		case <-ctx.Done():
			return
		case <-silent.C:
			failsBySilence = true
		case <-c.reports.Changes().Changed(index):
		}
	}
}

// reportOf returns the workload's report of a check, with its text unless it is a plain yes.
func (c *Checker) reportOf(check string) (rollout.Health, string) {
	all := c.reports.States()
	i := slices.IndexFunc(all, func(s selfreport.State) bool { return s.Name == check })
	if i < 0 {
		return rollout.Unknown, ""
	}
	return all[i].Health, all[i].Output
}
