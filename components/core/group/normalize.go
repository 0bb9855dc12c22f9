package group

import (
	"slices"
	"strings"
	"time"
)

// Defaults of a spec, each argued for in docs/evidence/rollout-rules.md.
const (
	// DefaultMinReady keeps a member that rejoins and then crashes from counting (R8).
	DefaultMinReady = 30 * time.Second
	// DefaultHealthyDeadline leaves a confidential VM the time to measure, attest
	// and unlock its disk (R87).
	DefaultHealthyDeadline = 10 * time.Minute
	// DefaultHookHeartbeat and DefaultHookMaxDuration notice a dead hook (R79).
	DefaultHookHeartbeat   = 5 * time.Minute
	DefaultHookMaxDuration = time.Hour
	// Health check defaults, in the units of their fields.
	DefaultCheckIntervalSec   = 10
	DefaultCheckTimeoutSec    = 5
	DefaultHealthyThreshold   = 2
	DefaultUnhealthyThreshold = 3
	defaultPlatform           = PlatformPhala
)

// Normalize fills every absent field that has a default, and sorts the blocks of the AgentSpec whose order means
// nothing, since a Revision is made of them.
// It changes no field that is set, so Normalize twice is Normalize once, and it never moves the Revision.
func (s *Spec) Normalize() {
	s.sortBlocks()
	fill(&s.Platform, defaultPlatform)
	fill(&s.ManagementPolicy, OrderedReady)
	fill(&s.Workload.Kind, WorkloadNone)
	if s.Placement.Spread != SpreadNone {
		fill(&s.Placement.MaxPer, 1)
	}
	for i := range s.LifecycleHooks {
		s.LifecycleHooks[i].normalize()
	}
	s.UpdatePolicy.normalize(longestHeartbeat(*s))
	for i := range s.HealthChecks {
		s.HealthChecks[i].normalize()
	}
	for i := range s.Backends {
		s.Backends[i].normalize()
	}
	for i := range s.Secrets {
		s.Secrets[i].normalize()
	}
	for i := range s.Gates {
		s.Gates[i].normalize()
	}
}

// sortBlocks orders hooks and checks, so that a move within the file makes no other Revision. Only
// hooks have an order of their own: the hooks of one Transition run in the order of the file.
func (s *Spec) sortBlocks() {
	s.LifecycleHooks = sorted(s.LifecycleHooks, func(a, b LifecycleHook) int {
		return slices.Index(transitions, a.Transition) - slices.Index(transitions, b.Transition)
	})
	s.HealthChecks = sorted(s.HealthChecks, func(a, b HealthCheck) int { return strings.Compare(a.Name, b.Name) })
}

// transitions in the order in which a Slot meets them.
var transitions = []Transition{PreTerminate, PostLaunch}

// sorted leaves list as it is: a caller may share it with another spec.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	return slices.SortedStableFunc(slices.Values(list), compare)
}

// clone copies the parts that Normalize writes, so that the caller's spec stays unchanged.
func (s Spec) clone() Spec {
	s.LifecycleHooks = slices.Clone(s.LifecycleHooks)
	for i, h := range s.LifecycleHooks {
		if h.HTTP != nil {
			action := *h.HTTP
			s.LifecycleHooks[i].HTTP = &action
		}
	}
	s.HealthChecks = slices.Clone(s.HealthChecks)
	for i, c := range s.HealthChecks {
		if c.HTTP != nil {
			check := *c.HTTP
			s.HealthChecks[i].HTTP = &check
		}
	}
	s.Backends = slices.Clone(s.Backends)
	s.Secrets = slices.Clone(s.Secrets)
	s.Gates = slices.Clone(s.Gates)
	s.UpdatePolicy.Stages = slices.Clone(s.UpdatePolicy.Stages)
	return s
}

func (p *UpdatePolicy) normalize(heartbeat time.Duration) {
	fill(&p.Type, Proactive)
	fill(&p.MinimalAction, ActionNone)
	fill(&p.MostDisruptiveAllowedAction, ActionReplace)
	fill(&p.Leader, LeaderLast)
	fill(&p.OnFailure, Pause)
	for i := range p.Stages {
		fill(&p.Stages[i].Promote, PromoteAuto)
	}
	if p.MaxUnavailableFixed == nil && p.MaxUnavailablePercent == nil {
		p.MaxUnavailableFixed = ptr(1)
	}
	if p.MinReadySeconds == nil {
		p.MinReadySeconds = ptr(int(DefaultMinReady / time.Second))
	}
	fill(&p.HealthyDeadline, Duration(DefaultHealthyDeadline))
	fill(&p.ProgressDeadline, Duration(defaultProgress(p.HealthyDeadline.D(), heartbeat)))
}

func (h *LifecycleHook) normalize() {
	fill(&h.MaxDuration, Duration(DefaultHookMaxDuration))
	fill(&h.HeartbeatTimeout, min(Duration(DefaultHookHeartbeat), h.MaxDuration))
	if h.HTTP != nil {
		fill(&h.HTTP.Method, "POST")
	}
	switch h.Transition {
	case PreTerminate:
		// Nothing happened yet: calling the step off is always right (R80).
		fill(&h.DefaultResult, HookAbandon)
	case PostLaunch:
		// The Boot runs already: keep it where it is and let a person look.
		fill(&h.DefaultResult, HookHold)
	}
}

// defaultProgress is three times healthy, and never so short that R88 refuses it. A healthy
// that validation refuses counts with the nearest value that it allows.
func defaultProgress(healthy, heartbeat time.Duration) time.Duration {
	healthy = max(0, min(healthy, maxDeadline))
	return max(3*healthy, 2*healthy+heartbeat)
}

func (c *HealthCheck) normalize() {
	if c.TTL != nil {
		return // a TTL check has no interval
	}
	fill(&c.CheckIntervalSec, DefaultCheckIntervalSec)
	fill(&c.TimeoutSec, min(DefaultCheckTimeoutSec, max(c.CheckIntervalSec, 1)))
	fill(&c.HealthyThreshold, DefaultHealthyThreshold)
	fill(&c.UnhealthyThreshold, DefaultUnhealthyThreshold)
	if c.HTTP != nil {
		fill(&c.HTTP.Expect, "200")
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func ptr[T any](v T) *T { return &v }
