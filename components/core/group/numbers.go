package group

import "time"

// MaxUnavailable is the disruption budget in Slots. A percentage is taken of
// Replicas, never of the present count, and rounded down with a floor of one
// (R12, R13). A fixed number is clamped to Replicas. The zero that validation
// refuses (R15) stays zero here, so that nothing is disrupted by mistake.
func MaxUnavailable(s Spec) int {
	p := s.UpdatePolicy
	switch {
	case p.MaxUnavailableFixed != nil:
		return clamp(*p.MaxUnavailableFixed, 0, s.Replicas)
	case p.MaxUnavailablePercent != nil:
		return percentOf(*p.MaxUnavailablePercent, s.Replicas)
	}
	return min(1, s.Replicas)
}

func percentOf(percent, size int) int {
	if percent <= 0 {
		return 0
	}
	return clamp(size*min(percent, 100)/100, 1, size)
}

// MaxSurge is how many extra Slots the group may have while a rollout runs (R14, R15a). A
// percentage is taken of Replicas and rounded up.
func MaxSurge(s Spec) int {
	p := s.UpdatePolicy
	switch {
	case p.MaxSurgeFixed != nil:
		return max(*p.MaxSurgeFixed, 0)
	case p.MaxSurgePercent != nil:
		return (s.Replicas*clamp(*p.MaxSurgePercent, 0, 100) + 99) / 100
	}
	return 0
}

// Quorum is the majority of voters: floor(V/2)+1.
func Quorum(voters int) int { return voters/2 + 1 }

// VoterCap is how many voters may be in a step at once (R17): one, or with
// parallel_voters up to floor((V-1)/2), never above the budget.
func VoterCap(s Spec, voters int) int {
	limit := min(MaxUnavailable(s), (voters-1)/2)
	if !s.UpdatePolicy.ParallelVoters {
		limit = min(limit, 1)
	}
	return max(limit, 0)
}

// MinReady is how long a Slot stays available before it counts (R8).
func MinReady(s Spec) time.Duration {
	if s.UpdatePolicy.MinReadySeconds == nil {
		return DefaultMinReady
	}
	return time.Duration(clamp(*s.UpdatePolicy.MinReadySeconds, 0, maxMinReadySec)) * time.Second
}

// HealthyDeadline bounds one Slot's way from the accepted call to available (R87).
func HealthyDeadline(s Spec) time.Duration {
	if s.UpdatePolicy.HealthyDeadline == 0 {
		return DefaultHealthyDeadline
	}
	return s.UpdatePolicy.HealthyDeadline.D()
}

// ProgressDeadline bounds the time between two arrivals in a rollout (R88).
func ProgressDeadline(s Spec) time.Duration {
	if s.UpdatePolicy.ProgressDeadline == 0 {
		return defaultProgress(HealthyDeadline(s), longestHeartbeat(s))
	}
	return s.UpdatePolicy.ProgressDeadline.D()
}

// transferAllowance is the time of a drain in addition to its hooks: for the transfer of leadership
// and for the messages.
const transferAllowance = 2 * time.Minute

// DrainDeadline bounds the whole drain of one Slot: every PRE_TERMINATE hook may
// take its absolute cap, one after the other (R79), and a hand-over its own time.
func DrainDeadline(s Spec) time.Duration {
	total := transferAllowance
	for _, h := range s.LifecycleHooks {
		if h.Transition == PreTerminate {
			total += h.maxDuration()
		}
	}
	return total
}

// RefreshAllowance bounds the wait of a step without a drain until the step is safe and its
// Revision is allowed. No hook runs in such a step.
const RefreshAllowance = transferAllowance

// HasHook reports whether any hook runs at the Transition.
func HasHook(s Spec, at Transition) bool {
	for _, h := range s.LifecycleHooks {
		if h.Transition == at {
			return true
		}
	}
	return false
}

func (h LifecycleHook) maxDuration() time.Duration {
	if h.MaxDuration == 0 {
		return DefaultHookMaxDuration
	}
	return h.MaxDuration.D()
}

func (h LifecycleHook) heartbeat() time.Duration {
	if h.HeartbeatTimeout == 0 {
		return min(DefaultHookHeartbeat, h.maxDuration())
	}
	return h.HeartbeatTimeout.D()
}

// longestHeartbeat is the longest time in which a hook may stay silent. It stays within the
// validated bound, so that no sum with it overflows.
func longestHeartbeat(s Spec) time.Duration {
	var longest time.Duration
	for _, h := range s.LifecycleHooks {
		longest = max(longest, min(h.heartbeat(), maxHookTime))
	}
	return longest
}

func clamp(n, low, high int) int { return max(low, min(n, high)) }

// MostDisruptive returns the harshest action that a change may cost.
func MostDisruptive(s Spec) UpdateAction {
	if s.UpdatePolicy.MostDisruptiveAllowedAction == "" {
		return ActionReplace
	}
	return s.UpdatePolicy.MostDisruptiveAllowedAction
}

// StepAction returns the cost of a step that applies changes.
func StepAction(s Spec, changes []Change) UpdateAction {
	return Harshest(Needed(changes), s.UpdatePolicy.MinimalAction)
}
