package rollout

import (
	"fmt"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Stable names of the predicates that hold an Action (R140). All are evaluated for
// each candidate, not only the first that fails.
const (
	// HoldIncomplete: a source did not answer, or the observation is too old (R11, R26).
	HoldIncomplete = "incomplete_observation"
	// HoldPaused and HoldFrozen: an operator stopped new steps (R92).
	HoldPaused = "paused"
	HoldFrozen = "frozen"
	// HoldRolloutFailed: the rollout failed, nothing voluntary moves (R99).
	HoldRolloutFailed = "rollout_failed"
	// HoldFailedStep: another Slot's step failed and it is not back (R40).
	HoldFailedStep = "failed_step"
	// HoldMaxUnavailable: the disruption budget is used up (R21).
	HoldMaxUnavailable = "max_unavailable"
	// HoldStepInProgress: an unfinished step goes first (R36).
	HoldStepInProgress = "step_in_progress"
	// HoldCallUndecided: a platform call's effect is not known yet (R66).
	HoldCallUndecided = "platform_result_unknown"
	// HoldVoterCap: as many voters as allowed are in a step (R17).
	HoldVoterCap = "voter_cap"
	// HoldQuorum: the voters left would be fewer than a majority (R44).
	HoldQuorum = "quorum"
	// HoldQuorumUnknown: the members' reports do not tell who votes (R43).
	HoldQuorumUnknown = "quorum_unknown"
	// HoldSickOneAtATime: sick voters are fixed one after the other (R45).
	HoldSickOneAtATime = "sick_one_at_a_time"
	// HoldWouldLoseQuorum: of two voters none can be spared (R19).
	HoldWouldLoseQuorum = "would_lose_quorum"
	// HoldInterruption: the only member may not be interrupted (R18).
	HoldInterruption = "interruption_refused"
	// HoldLeaderUnknown: no leader, or more than one (R34).
	HoldLeaderUnknown = "leader_unknown"
	// HoldLeaderLast: the leader goes after everybody else is proven updated (R53, R55).
	HoldLeaderLast = "leader_last"
	// HoldTransferBudget: the one planned transfer of this rollout was made (R53).
	HoldTransferBudget = "transfer_budget"
	// HoldNoCandidate: nobody can take over leadership (R54).
	HoldNoCandidate = "no_transfer_candidate"
	// HoldMayDisrupt: the workload says that this member must not be stopped (R52).
	HoldMayDisrupt = "may_disrupt"
	// HoldRecovering: measured recovery is not disturbed (R38).
	HoldRecovering = "recovering"
	// HoldBusy: a transfer, backup or rebuild is going on.
	HoldBusy = "busy"
	// HoldUnknownHealth: silent, but not for long enough to be called broken (R10).
	HoldUnknownHealth = "unknown_health"
	// HoldDeferred: called off a moment ago, asked again after a wait (R37).
	HoldDeferred = "deferred"
	// HoldOpportunistic: the spec moves a Slot only when something else touches it.
	HoldOpportunistic = "opportunistic"
	// HoldPredecessor: ORDERED_READY waits for the Slot before.
	HoldPredecessor = "predecessor"
	// HoldAppID: the first create allots the app that the others join.
	HoldAppID = "app_id"
	// HoldInstanceMissing: the bound CVM is gone, and the disk with it.
	HoldInstanceMissing = "instance_missing"
	// HoldDuplicate: more than one CVM carries the Slot's name (R67, R134).
	HoldDuplicate = "duplicate_instance"
	// HoldReplaced: another CVM than the bound one carries the Slot's name (R63).
	HoldReplaced = "instance_replaced"
	// HoldPreservedState: scaling in would delete the preserved disk (R135).
	HoldPreservedState = "preserved_state"
	// HoldOthersUnavailable: a Slot is removed only while all others are available.
	HoldOthersUnavailable = "others_unavailable"
	// HoldNotApproved: a person has to approve the Revision first (ATT-15).
	HoldNotApproved = "not_approved"
	// HoldBelowFloor: the Revision is older than the group's floor (ATT-25, OPS-06).
	HoldBelowFloor = "below_floor"
	// HoldRevoked: the Revision is revoked.
	HoldRevoked = "revoked"
	// HoldScaleInOrder: the highest ordinal goes first, one at a time (R109).
	HoldScaleInOrder = "scale_in_order"
)

func hold(predicate, format string, args ...any) Hold {
	return Hold{Predicate: predicate, Message: fmt.Sprintf(format, args...)}
}

func holdUntil(until time.Time, predicate, format string, args ...any) Hold {
	h := hold(predicate, format, args...)
	h.Until = until
	return h
}

// holdsOf is every reason why c may not run now, given what this pass took already.
func (w *world) holdsOf(c candidate, taken *taken) []Hold {
	holds := append(w.holdsOfGate(c), w.holdsOfPass(c)...)
	holds = append(holds, w.holdsOfBinding(c)...)
	switch c.kind {
	case operation.Create:
		return append(holds, w.holdsOfCreate(c, taken)...)
	case operation.Delete:
		return append(holds, w.holdsOfDelete(c, taken)...)
	case operation.Update, operation.Restart:
		return append(holds, w.holdsOfDisruption(c, taken)...)
	}
	return holds
}

// holdsOfPass are those that stop everybody: blindness, switches, a failed rollout.
func (w *world) holdsOfPass(c candidate) []Hold {
	var holds []Hold
	switch age := w.now.Sub(w.obs.At); {
	case !w.obs.Complete:
		holds = append(holds, hold(HoldIncomplete, "%s did not answer", orWord(w.obs.Incomplete, "a source")))
	case age > w.t.StaleAfter:
		holds = append(holds, hold(HoldIncomplete, "the observation is %s old", short(age)))
	}
	scaleOut := c.kind == operation.Create && w.stable != ""
	if w.obs.Frozen {
		holds = append(holds, hold(HoldFrozen, "everything is frozen by an operator; lift the freeze to go on"))
	}
	if w.obs.Paused && !scaleOut {
		holds = append(holds, hold(HoldPaused, "the group is paused by an operator; resume it to go on"))
	}
	if retry := c.marked && w.attempts(c.m, c.to) > 0; w.rollout.State == operation.FailedState && c.kind == operation.Update && !retry {
		holds = append(holds, hold(HoldRolloutFailed, "the rollout failed (%s); write a corrected spec, or restart the failed slot for another attempt", w.rollout.Reason))
	}
	if w.spec.UpdatePolicy.Type == group.Opportunistic && !c.marked && c.kind == operation.Update && c.class != ClassBroken {
		holds = append(holds, hold(HoldOpportunistic, "updates are OPPORTUNISTIC; restart the slot to apply the revision"))
	}
	for _, m := range w.all() {
		if m != c.m && w.undecided(m.open) {
			holds = append(holds, hold(HoldCallUndecided, "the platform call for %s is not decided yet", m.slot))
		}
	}
	return holds
}

// undecided: a call may have reached the platform and nobody knows (R66).
func (w *world) undecided(op *operation.Operation) bool {
	if op == nil || op.Phase != operation.Acting || op.CallOutcome == operation.OutcomeBusy {
		return false
	}
	return op.CallOutcome == operation.OutcomeUnknown || w.now.Sub(op.CallIssuedAt) > w.t.MaxCallTimeout
}

// holdsOfBinding are those about which CVM would be touched.
func (w *world) holdsOfBinding(c candidate) []Hold {
	m, i := c.m, c.m.seen.Instance
	var holds []Hold
	if n := len(m.seen.Duplicates); n > 0 {
		holds = append(holds, hold(HoldDuplicate, "%d CVMs carry the name of %s; remove the wrong ones on the platform", n+1, m.slot))
	}
	switch {
	case m.vanished() && c.kind == operation.Create:
		holds = append(holds, hold(HoldInstanceMissing,
			"the CVM of %s (%s) is gone from the platform, and its disk with it; replacing it is an operator's decision: remove the slot's record to have a new one made",
			m.slot, orWord(m.record.VMUUID, m.record.InstanceID)))
	case i != nil && m.record.VMUUID != i.VMUUID,
		i != nil && m.record.InstanceID != "" && i.InstanceID != "" && m.record.InstanceID != i.InstanceID:
		holds = append(holds, hold(HoldReplaced, "the platform shows CVM %s under the name of %s, which is bound to %s",
			i.VMUUID, m.slot, orWord(m.record.VMUUID, "none of this app")))
	}
	return holds
}

// holdsOfCreate: creations follow the management policy and never meet a step.
func (w *world) holdsOfCreate(c candidate, taken *taken) []Hold {
	var holds []Hold
	if w.spec.ManagementPolicy != group.Parallel {
		for _, m := range w.members {
			if m.ordinal < c.m.ordinal && (!m.available || taken.has(m)) {
				holds = append(holds, hold(HoldPredecessor, "waits for %s: %s", m.slot, w.whyNot(m)))
				break
			}
		}
	}
	if w.appID == "" && (len(taken.creates) > 0 || w.creating(c.m)) {
		holds = append(holds, hold(HoldAppID, "the first CVM of the group allots the app id; the others follow"))
	}
	for _, m := range w.all() {
		if m != c.m && m.open != nil && m.open.Kind != operation.Create {
			holds = append(holds, hold(HoldStepInProgress, "waits for the step of %s", m.slot))
		}
	}
	return holds
}

func (w *world) creating(except *member) bool {
	for _, m := range w.members {
		if m != except && m.open != nil && m.open.Kind == operation.Create {
			return true
		}
	}
	return false
}

// holdsOfDelete: the highest first, one at a time, while everybody else is fine,
// and never the preserved disk.
func (w *world) holdsOfDelete(c candidate, taken *taken) []Hold {
	var holds []Hold
	if disk := w.spec.PreservedState.Disk; disk != "" {
		holds = append(holds, hold(HoldPreservedState,
			"removing %s would delete its disk %q, which the spec preserves; remove preserved_state to allow it, or raise replicas to keep the slot", c.m.slot, disk))
	}
	if first := w.firstCondemned(); first != nil && first != c.m {
		holds = append(holds, hold(HoldScaleInOrder, "waits for the removal of %s", first.slot))
	}
	for _, m := range w.members {
		if !m.available || m.open != nil || taken.has(m) {
			holds = append(holds, hold(HoldOthersUnavailable, "waits for %s: %s", m.slot, w.whyNot(m)))
			break
		}
	}
	holds = append(holds, w.holdsOfRemoval(c.m)...)
	return append(holds, w.holdsOfLeader(c)...)
}

func (w *world) firstCondemned() *member {
	for _, m := range w.condemned {
		if m.seen.Instance != nil || m.open != nil {
			return m
		}
	}
	return nil
}

// holdsOfDisruption are the gates of everything that takes a CVM down for a while.
func (w *world) holdsOfDisruption(c candidate, taken *taken) []Hold {
	var holds []Hold
	holds = append(holds, w.holdsOfBudget(c, taken)...)
	holds = append(holds, w.holdsOfFailedSteps(c)...)
	holds = append(holds, w.holdsOfQuorum(c, taken)...)
	holds = append(holds, w.holdsOfLeader(c)...)
	holds = append(holds, w.holdsOfMember(c)...)
	return append(holds, w.holdsOfAborts(c)...)
}

// holdsOfMember are what the workload itself asks for.
func (w *world) holdsOfMember(c candidate) []Hold {
	m, r := c.m, c.m.report
	if until := w.lostAt(m); r == nil && c.broken == whole && !m.ready && m.open == nil {
		return []Hold{holdUntil(until, HoldUnknownHealth, "%s is silent; it counts as lost at %s", m.slot, until.UTC().Format(time.TimeOnly))}
	}
	if r == nil {
		return nil
	}
	var holds []Hold
	switch until := m.record.UnavailableSince.Add(maxRebuild); {
	case len(r.Busy) == 0:
	case m.available:
		holds = append(holds, hold(HoldBusy, "%s is busy: %s", m.slot, r.Busy[0]))
	case r.LagBytes != nil && !m.ready && w.now.Before(until):
		holds = append(holds, holdUntil(until, HoldRecovering, "%s is recovering: %s", m.slot, r.Busy[0]))
	}
	if m.available {
		holds = append(holds, w.holdsOfDriver(m)...)
	}
	return holds
}

// holdsOfDriver asks the workload whether m may be stopped. A fix of an unavailable
// member is not gated; for a healthy one unknown is no (R52).
func (w *world) holdsOfDriver(m *member) []Hold {
	r := m.report
	if r == nil || r.MayDisrupt || !group.HasDriver(w.spec) && r.MayDisruptReason == "" {
		return nil
	}
	return []Hold{hold(HoldMayDisrupt, "%s must not be stopped now: %s", m.slot, orWord(r.MayDisruptReason, "its driver does not say that it may"))}
}

// holdsOfFailedSteps is R40: no further healthy Slot is spent while one whose step
// failed is not back.
func (w *world) holdsOfFailedSteps(c candidate) []Hold {
	if c.broken != whole {
		return nil
	}
	for _, m := range w.members {
		last := m.last()
		if m != c.m && last != nil && last.Phase == operation.Failed && m.open == nil && !m.available {
			return []Hold{hold(HoldFailedStep, "the step of %s failed (%s) and it is not available again", m.slot, last.Reason)}
		}
	}
	return nil
}

// maxRebuild bounds how long a recovery is left alone (R38).
const maxRebuild = time.Hour

const (
	firstWait = 5 * time.Second
	maxWait   = 2 * time.Minute
)

// holdsOfAborts defers a candidate that was called off: 5 s, doubled each time, at
// most 2 min (R37).
func (w *world) holdsOfAborts(c candidate) []Hold {
	n, last := w.aborts(c.m), c.m.last()
	if n == 0 || last == nil || c.marked {
		return nil
	}
	until := last.EndedAt.Add(min(firstWait<<min(n-1, 10), maxWait))
	if !w.now.Before(until) {
		return nil
	}
	return []Hold{holdUntil(until, HoldDeferred, "%s was called off (%s); tried again in %s", c.m.slot, last.Reason, short(until.Sub(w.now)))}
}

// aborts counts the newest run of steps of m that its hooks or its agent called
// off. A pause or a new spec is no refusal of the member and does not count (R80).
func (w *world) aborts(m *member) int {
	n := 0
	for i := len(m.past) - 1; i >= 0; i-- {
		op := m.past[i]
		if op.Phase != operation.Aborted {
			break
		}
		switch op.Cause {
		case operation.CauseHook, operation.CauseDrainDeadline, operation.CauseUnsafe:
			n++
		case operation.CauseUnwanted, operation.CausePaused, operation.CauseRefused, operation.CauseBootError,
			operation.CauseReplaced, operation.CausePostLaunch, operation.CauseDeadline, "":
		}
	}
	return n
}
