package rollout

import (
	"fmt"
	"time"
)

// Stable names of the predicates that hold an Action (R140). All are evaluated for
// each candidate, not only the first that fails.
const (
	// HoldIncomplete: a source did not answer, or the observation is too old (R11, R26).
	HoldIncomplete = "incomplete_observation"
	// HoldPaused and HoldFrozen: an operator stopped new steps (R92).
	HoldPaused = "paused"
	HoldFrozen = "frozen"
	// HoldProtected: an operator protects the Slot from what disrupts it (R139).
	HoldProtected = "protected"
	// HoldDrained: an operator took the Slot out of service, and it is left alone (R139).
	HoldDrained = "drained"
	// HoldRolloutFailed: the rollout failed, nothing voluntary moves (R99).
	HoldRolloutFailed = "rollout_failed"
	// HoldFailedStep: another Slot's step failed and it is not back (R40).
	HoldFailedStep = "failed_step"
	// HoldMaxUnavailable: the disruption budget is used up (R21).
	HoldMaxUnavailable = "max_unavailable"
	// HoldCallUndecided: a platform call's effect is not known yet (R66).
	HoldCallUndecided = "platform_result_unknown"
	// HoldVoterCap: as many voters as allowed are in a step (R17).
	HoldVoterCap = "voter_cap"
	// HoldQuorum: the voters left would be fewer than a majority (R44).
	HoldQuorum = "quorum"
	// HoldQuorumUnknown: the members' reports do not tell who votes (R43).
	HoldQuorumUnknown = "quorum_unknown"
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
	// HoldActionNotAllowed: the update takes more than the spec allows (R132).
	HoldActionNotAllowed = "action_not_allowed"
	// HoldUpdateUnfinished: a restart would boot what the CVM was given and never ran.
	HoldUpdateUnfinished = "update_unfinished"
	// HoldStepDelay: the spec wants a pause after the step before (R96).
	HoldStepDelay = "step_delay"
	// HoldRemovalInProgress: a Slot that is to go goes first (R104).
	HoldRemovalInProgress = "removal_in_progress"
	// HoldLeaderAsks: the spec has the leader's step wait for a person.
	HoldLeaderAsks = "leader_asks"
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
	// HoldDeleteDisks: removing the Slot deletes a disk that nobody gave up.
	HoldDeleteDisks = "delete_disks"
	// HoldSetChanging: another member is on its way into the workload's set, or out of it (R47, R48).
	HoldSetChanging = "set_changing"
	// HoldVoterScaleIn: nobody here can change who votes, so no voter is removed (R46).
	HoldVoterScaleIn = "voter_scale_in"
	// HoldAgentsUnheard: too few agents are heard to know what a step would cost (R120).
	HoldAgentsUnheard = "agents_unheard"
	// HoldNamedLeader: it is silent, and those who follow name it as their leader (R125).
	HoldNamedLeader = "named_leader"
	// HoldNamedFollower: it is silent, and the member that leads says that it follows (R125).
	HoldNamedFollower = "named_follower"
	// HoldPlatformBusy: the platform works on the CVM; waited for, at most as long as a boot may take.
	HoldPlatformBusy = "platform_busy"
	// HoldRefused: the platform refused as often as it is asked.
	HoldRefused = "refused"
	// HoldPrecondition: the platform would not measure the Revision as what was judged, or does not
	// offer what it names (R74).
	HoldPrecondition = "precondition"
	// HoldNoSource: nobody has the data that a replaced member would be rebuilt from (R136).
	HoldNoSource = "no_data_source"
	// HoldReplaceInProgress: one Slot is replaced at a time (R115).
	HoldReplaceInProgress = "replace_in_progress"
	// HoldQuarantined: as many attempts to heal it as are made came to nothing (R118).
	HoldQuarantined = "quarantined"
	// HoldHealDeferred: the first attempt to heal it follows when what it has lasted (R113), the next
	// one after a wait (R118).
	HoldHealDeferred = "heal_deferred"
	// HoldHealInProgress: as many as may be at a time are healed (R117).
	HoldHealInProgress = "heal_in_progress"
	// HoldHealStorm: so many are ill that the cause may be one that they share, and repairs are made at a low rate, or
	// a disk is not given up (R119, R120).
	HoldHealStorm = "heal_storm"
	// HoldUnadopted: a CVM carries the Slot's name, and no record binds it.
	HoldUnadopted = "unadopted"
	// HoldOutOfSet: the set does not know the member any more, and no step is under way that would make
	// it anew.
	HoldOutOfSet = "out_of_set"
	// HoldScaleInOrder: one is removed at a time, the highest ordinal first (R109).
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
