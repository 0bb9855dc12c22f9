package reports

import (
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// MaxTags is the maximum number of a backend's tags.
const MaxTags = 8

// Backend is a workload's report about a backend that it registers itself.
type Backend struct {
	Health rollout.Health
	// Tags are names, sorted, each once.
	Tags []string
}

// Backends returns the backends in the report, by name. An invalid name is dropped as a tag,
// because routes find members by tags.
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
