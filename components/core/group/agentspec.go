package group

// AgentSpec is the part of a Spec that a Slot's agent carries out in addition to the workload: the
// commands and calls of hooks and checks, and the driver's settings. The agent runs it with its own
// rights in a CVM that holds the group's secrets. AgentSpec is therefore part of a Revision, and an
// approval covers it. A Boot gets the AgentSpec of the Revision at which it was admitted.
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
