package health

import (
	"context"
	"slices"
	"time"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/rollout"
)

// Told is what workloads say of their checks; *selfreport.Registry is it.
type Told interface {
	States() []selfreport.State
	Changes() *latestvalue.Value[struct{}]
}

// runTold judges by the workload's own word, without thresholds. Silence is a failure once a
// word would hold no longer: the last one, or one of when the check began. One that was judged
// before had its word, and the registry kept the time of that.
func (c *Checker) runTold(ctx context.Context, one *check) {
	spec, result := one.spec, c.resultOf(one)
	silent := time.NewTimer(seconds(spec.TTL.TTLSec, 1))
	defer silent.Stop()
	failsBySilence := result.Health != rollout.Unknown
	for {
		_, index := c.told.Changes().Get()
		health, message := c.wordOf(spec.Name)
		switch {
		case health != rollout.Unknown:
			failsBySilence = true // the registry keeps the time of a word
		case failsBySilence:
			health, message = rollout.Unhealthy, "the workload said nothing for "+seconds(spec.TTL.TTLSec, 1).String()
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
		case <-c.told.Changes().Changed(index):
		}
	}
}

// wordOf is what the workload says of a check, with the text of a word that is no plain yes.
func (c *Checker) wordOf(check string) (rollout.Health, string) {
	all := c.told.States()
	i := slices.IndexFunc(all, func(s selfreport.State) bool { return s.Name == check })
	if i < 0 {
		return rollout.Unknown, ""
	}
	return all[i].Health, all[i].Output
}
