package reports

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// MaxTags is how many tags a backend may have.
const MaxTags = 8

// Backend is what a workload says of a backend that it registers itself.
type Backend struct {
	Health rollout.Health
	// Tags are names, sorted, each once.
	Tags []string
}

// Backends are those that the report speaks of, by name. What is no name is no tag: routes
// find members by them.
func (r Received) Backends() map[string]Backend {
	list := r.Report.GetBackends()
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]Backend, len(list))
	for _, b := range list {
		one := Backend{Health: rollout.Unknown}
		switch b.GetHealth() {
		case controlv1.Health_HEALTH_HEALTHY:
			one.Health = rollout.Healthy
		case controlv1.Health_HEALTH_UNHEALTHY:
			one.Health = rollout.Unhealthy
		case controlv1.Health_HEALTH_UNSPECIFIED, controlv1.Health_HEALTH_UNKNOWN:
		}
		for _, tag := range b.GetTags() {
			if group.NameProblem(tag) == "" {
				one.Tags = append(one.Tags, tag)
			}
		}
		slices.Sort(one.Tags)
		one.Tags = slices.Compact(one.Tags)
		one.Tags = one.Tags[:min(len(one.Tags), MaxTags)]
		out[b.GetName()] = one
	}
	return out
}
