package group

// AgentSpec is what a Slot's agent does beside its workload because a Spec says so: the
// commands and calls of hooks and checks, and the driver's settings. It runs with the
// agent's rights in a CVM that holds the group's secrets, so it is part of a Revision:
// what a person approves covers it, and a Boot gets the one of the Revision that it was
// admitted at, never that of a spec that is still to be rolled or approved.
type AgentSpec struct {
	Workload       Workload        `json:"workload,omitzero"`
	LifecycleHooks []LifecycleHook `json:"lifecycle_hook,omitempty"`
	HealthChecks   []HealthCheck   `json:"health_check,omitempty"`
}

// AgentSpec is the spec's own, with every default filled in.
func (s Spec) AgentSpec() AgentSpec {
	s = s.clone()
	s.Normalize()
	return AgentSpec{Workload: s.Workload, LifecycleHooks: s.LifecycleHooks, HealthChecks: s.HealthChecks}
}

// With is the spec with the agent spec of one of its Revisions in place of its own.
func (s Spec) With(c AgentSpec) Spec {
	s.Workload, s.LifecycleHooks, s.HealthChecks = c.Workload, c.LifecycleHooks, c.HealthChecks
	return s
}
