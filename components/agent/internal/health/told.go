package health

import (
	"context"
	"slices"
	"time"

	"cadre.dev/agent/internal/latest"
	"cadre.dev/agent/internal/words"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Told is what workloads say of their checks; *words.Registry is it.
type Told interface {
	States() []words.State
	Changes() *latest.Value[struct{}]
}

// runTold judges by the workload's own word, without thresholds. Silence is a failure once a
// word would hold no longer: the last one, or one of when the check began.
func (c *Checker) runTold(ctx context.Context, at int, spec group.HealthCheck, result Result) {
	silent := time.NewTimer(seconds(spec.TTL.TTLSec, 1))
	defer silent.Stop()
	failsBySilence := false
	for {
		_, index := c.told.Changes().Get()
		health, message := c.wordOf(spec.Name)
		switch {
		case health != rollout.Unknown:
			failsBySilence = true // the registry keeps the time of a word
		case failsBySilence:
			health, message = rollout.Unhealthy, "the workload said nothing for "+seconds(spec.TTL.TTLSec, 1).String()
		}
		if health != result.Health {
			result.Since = time.Now().UTC()
			c.log.Info("health check changed", "check", spec.Name, "health", health, "reason", message)
		}
		if health != result.Health || message != result.Message {
			result.Health, result.Message = health, message
			c.set(at, result)
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
	i := slices.IndexFunc(all, func(s words.State) bool { return s.Name == check })
	if i < 0 {
		return rollout.Unknown, ""
	}
	return all[i].Health, all[i].Output
}
