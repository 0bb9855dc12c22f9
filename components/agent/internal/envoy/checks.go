package envoy

import (
	"cadre.dev/agent/internal/health"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Checks are the health checks of a member that its Envoys are: one for each.
func (s *Supervisor) Checks() []health.Result {
	var out []health.Result
	for _, one := range s.Status() {
		r := health.Result{Name: group.ProxyCheck(one.ID), Health: rollout.Unknown, Message: one.Message, Since: one.Since}
		switch one.State {
		case StateLive:
			r.Health = rollout.Healthy
		case StateDown:
			r.Health = rollout.Unhealthy
		case StateStarting, StateDraining:
		}
		out = append(out, r)
	}
	return out
}
