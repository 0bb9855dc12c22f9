package group

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/window"
)

func (v *validator) updatePolicy(s Spec) {
	p := s.UpdatePolicy
	if p.Type != Proactive && p.Type != Opportunistic {
		v.add("update_policy.type", "", "%q is unknown: use %s or %s", p.Type, Proactive, Opportunistic)
	}
	v.actions(p)
	v.renewal(s)
	switch {
	case p.OnFailure != Pause && p.OnFailure != Rollback:
		v.add("update_policy.on_failure", "R99", "%q is unknown: use %s or %s", p.OnFailure, Pause, Rollback)
	case p.OnFailure == Rollback && p.Type == Opportunistic:
		v.add("update_policy.on_failure", "R101", "is %s, and update_policy.type is %s: no step begins automatically, so that nothing could go back; use %s, or type %s", Rollback, Opportunistic, Pause, Proactive)
	case p.OnFailure == Rollback && p.MostDisruptiveAllowedAction == ActionNone:
		v.add("update_policy.on_failure", "R101", "is %s, and most_disruptive_allowed_action is %s: no step is allowed, so that nothing could go back; raise it, or use %s", Rollback, ActionNone, Pause)
	}
	switch p.Interruption {
	case "", InterruptionAllow, InterruptionRefuse:
	default:
		v.add("update_policy.interruption", "", "%q is unknown: use %q or %q", p.Interruption, InterruptionAllow, InterruptionRefuse)
	}
	switch p.Irreversible {
	case "", IrreversibleAsk, IrreversibleAllow:
	default:
		v.add("update_policy.irreversible", "", "%q is unknown: use %q or %q", p.Irreversible, IrreversibleAsk, IrreversibleAllow)
	}
	switch p.Leader {
	case LeaderLast, LeaderAsk:
	case "first":
		v.add("update_policy.leader", "R53", "%q is not offered: a CVM that boots loses leadership, so that the next leader would be first again; use %q or %q", p.Leader, LeaderLast, LeaderAsk)
	default:
		v.add("update_policy.leader", "R53", "%q is unknown: use %q or %q", p.Leader, LeaderLast, LeaderAsk)
	}
	if p.Order != "" && p.Order != OrderByDomain {
		v.add("update_policy.order", "R31", "%q is unknown: use %q, or leave it out", p.Order, OrderByDomain)
	}
	v.ordinals(s)
	v.budget(s)
	v.deadlines(s)
	v.stages(s)
}

// actions judges how harsh updates have to be and may be.
func (v *validator) actions(p UpdatePolicy) {
	const least, most = "update_policy.minimal_action", "update_policy.most_disruptive_allowed_action"
	known := UpdateActions()
	switch {
	case !slices.Contains(known, p.MinimalAction):
		v.add(least, "", "%q is unknown: use %s, %s, %s or %s", p.MinimalAction, ActionNone, ActionRefresh, ActionRestart, ActionReplace)
	}
	switch {
	case !slices.Contains(known, p.MostDisruptiveAllowedAction):
		v.add(most, "R132", "%q is unknown: use %s, %s, %s or %s", p.MostDisruptiveAllowedAction, ActionNone, ActionRefresh, ActionRestart, ActionReplace)
	case p.MinimalAction.Harsher(p.MostDisruptiveAllowedAction):
		v.add(most, "R132", "is %s, and minimal_action is %s: no step could ever be made; raise this one or lower that one", p.MostDisruptiveAllowedAction, p.MinimalAction)
	}
}

// renewal judges a rollout that replaces each member (R15b). It loses every disk, and an extra Slot proves the target.
func (v *validator) renewal(s Spec) {
	const path = "update_policy.minimal_action"
	if s.UpdatePolicy.MinimalAction != ActionReplace {
		return
	}
	if HasVoters(s) {
		v.add(path, "R15b", "is %s, which gives each slot an empty disk, and workload %q has voters: use %s at most, and `cadre instance replace` for one slot", ActionReplace, s.Workload.Kind, ActionRestart)
	}
	if s.PreservesDisks() {
		v.add(path, "R15b", "is %s, which gives each slot an empty disk, and preserved_state keeps one: use %s at most, or remove preserved_state", ActionReplace, ActionRestart)
	}
	if MaxSurge(s) == 0 {
		v.add(path, "R15b", "is %s, and no extra slot could prove a new revision first: set max_surge_fixed or max_surge_percent", ActionReplace)
	}
	if s.UpdatePolicy.Type == Opportunistic {
		v.add(path, "R15b", "is %s, and type is %s: a request for a slot updates it in place; use %s", ActionReplace, Opportunistic, Proactive)
	}
}

func (v *validator) budget(s Spec) {
	p := s.UpdatePolicy
	const fixed, percent = "update_policy.max_unavailable_fixed", "update_policy.max_unavailable_percent"
	const alone = "and 0 only together with max_surge_fixed or max_surge_percent"
	if p.MaxUnavailableFixed != nil && p.MaxUnavailablePercent != nil {
		v.add(fixed, "", "and max_unavailable_percent are both set: keep one")
	}
	if n := p.MaxUnavailablePercent; n != nil && (*n < 0 || *n > 100) {
		v.add(percent, "R13", "is %d: must be 0 to 100, "+alone, *n)
	}
	if n := p.MaxUnavailableFixed; n != nil && *n < 0 {
		v.add(fixed, "", "is %d: must be at least 0, "+alone, *n)
	}
	const zero = "is 0, and so is max_surge_fixed (or max_surge_percent): nothing could ever be updated; set one of them to 1"
	if n := p.MaxUnavailableFixed; n != nil && *n == 0 && MaxSurge(s) == 0 {
		v.add(fixed, "R15", zero)
	}
	if n := p.MaxUnavailablePercent; n != nil && *n == 0 && MaxSurge(s) == 0 {
		v.add(percent, "R15", zero)
	}
	v.surge(s)
	v.creations(s)
	v.failures(s)
}

// surge bounds the extra Slots of a rollout (R14, R15a).
func (v *validator) surge(s Spec) {
	const fixed, percent = "update_policy.max_surge_fixed", "update_policy.max_surge_percent"
	p := s.UpdatePolicy
	path := fixed
	if p.MaxSurgePercent != nil {
		path = percent
	}
	n := MaxSurge(s)
	switch most := mostReplicas(s); {
	case p.MaxSurgeFixed != nil && p.MaxSurgePercent != nil:
		v.add(fixed, "", "and max_surge_percent are both set: keep one")
	case p.MaxSurgeFixed != nil && *p.MaxSurgeFixed < 0:
		v.add(fixed, "R15a", "is %d: must be at least 0", *p.MaxSurgeFixed)
	case p.MaxSurgePercent != nil && (*p.MaxSurgePercent < 0 || *p.MaxSurgePercent > 100):
		v.add(percent, "R14", "is %d: must be 0 to 100", *p.MaxSurgePercent)
	case n > 0 && n > most-s.Replicas && s.Replicas <= most:
		v.add(path, "R15a", "makes %d extra slots: with replicas (%d) the group would have more than %d slots during a rollout; at most %d", n, s.Replicas, most, most-s.Replicas)
	case n == 1 && s.Replicas == 1 && HasVoters(s):
		v.add(path, "R15a", "makes 1 extra slot: with one voter that makes two, of which none can be spared; use max_surge_fixed = 2")
	}
}

// failures bounds the Slots that may fail their step (R100). A failed Slot keeps its part of the budget, so that a number
// as large as the budget would stop the rollout without failing it.
func (v *validator) failures(s Spec) {
	const path = "update_policy.max_failed"
	switch n, budget := s.UpdatePolicy.MaxFailed, MaxUnavailable(s)+MaxSurge(s); {
	case n < 0:
		v.add(path, "R100", "is %d: must be at least 0", n)
	case n > 0 && HasVoters(s):
		v.add(path, "R100", "is %d: workload %q has voters, and a rollout of voters stops at its first failure; use 0", n, s.Workload.Kind)
	case n > 0 && n >= budget:
		v.add(path, "R100", "is %d: failed slots keep their part of the budget, which is %d (max_unavailable and max_surge), so that the rollout could not go on; use %d at most, or raise the budget", n, budget, max(budget-1, 0))
	}
}

// creations bounds the pace of creations (R107).
func (v *validator) creations(s Spec) {
	const path = "update_policy.max_creating"
	switch n := s.UpdatePolicy.MaxCreating; {
	case n == nil:
	case *n < 1 || *n > MaxReplicas:
		v.add(path, "R107", "is %d: must be 1 to %d, or absent to create all slots at once", *n, MaxReplicas)
	case s.ManagementPolicy == OrderedReady:
		v.add(path, "R107", "is %d, and management_policy %s creates one slot after the other: use %s, or leave this out", *n, OrderedReady, Parallel)
	}
}

// mostReplicas is how many Slots such a group may have.
func mostReplicas(s Spec) int {
	if HasDriver(s) {
		return MaxDriven
	}
	return MaxReplicas
}

func (v *validator) deadlines(s Spec) {
	const healthyPath, progressPath = "update_policy.healthy_deadline", "update_policy.progress_deadline"
	minReady, healthy, progress := MinReady(s), HealthyDeadline(s), ProgressDeadline(s)
	if n := s.UpdatePolicy.MinReadySeconds; n != nil && (*n < 0 || *n > maxMinReadySec) {
		v.add("update_policy.min_ready_seconds", "R8", "is %d: must be 0 to %d", *n, maxMinReadySec)
	}
	if d := s.UpdatePolicy.StepDelay; d != 0 {
		v.within("update_policy.step_delay", "R96", d.D(), maxStepDelay)
	}
	v.windows(s.UpdatePolicy.Windows)
	sound := v.within(healthyPath, "R87", healthy, maxDeadline)
	if sound && healthy <= minReady {
		v.add(healthyPath, "R87", "is %s: must be longer than min_ready_seconds (%s), which it includes", healthy, minReady)
	}
	if v.within(progressPath, "R88", progress, 4*maxDeadline) && sound && progress <= healthy+longestHeartbeat(s) {
		v.add(progressPath, "R88", "is %s: must be longer than healthy_deadline (%s) plus the longest hook heartbeat (%s)",
			progress, healthy, longestHeartbeat(s))
	}
}

// windows rejects a window that is unreadable, or never opens (R97).
func (v *validator) windows(list window.Windows) {
	if len(list) > window.MaxWindows {
		v.add("update_policy.window", "R97", "has %d windows, at most %d are allowed", len(list), window.MaxWindows)
		return
	}
	for i, one := range list {
		for _, p := range one.Problems() {
			v.add(fmt.Sprintf("update_policy.window[%d].%s", i, p.Field), "R97", "%s", p.Message)
		}
	}
}

// voters rejects specs that would lose quorum at each step (R19).
func (v *validator) voters(s Spec) {
	if !HasVoters(s) || s.UpdatePolicy.Interruption == InterruptionAllow {
		return
	}
	if s.Replicas == 2 {
		v.add("replicas", "R19",
			"would_lose_quorum: of two voters each update loses quorum; use 3, or set update_policy.interruption = \"allow\"")
	}
}

func (v *validator) workload(s Spec) {
	if _, known := workloadKinds[s.Workload.Kind]; !known {
		v.add("workload.kind", "", "%q is unknown: use one of %s", s.Workload.Kind, strings.Join(WorkloadKinds(), ", "))
		return
	}
	if !v.accepted {
		v.problems = append(v.problems, s.Workload.settingProblems()...)
	}
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
