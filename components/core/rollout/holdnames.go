package rollout

import (
	"fmt"
	"time"
)

// Stable names of the predicates that hold an Action (R140). The planner evaluates all of them for each candidate,
// not only up to the first failure.
const (
	// HoldIncomplete: a source did not answer, or the observation is too old (R11, R26).
	HoldIncomplete = "incomplete_observation"
	// HoldPaused and HoldFrozen: an operator stopped new steps (R92).
	HoldPaused = "paused"
	HoldFrozen = "frozen"
	// HoldGroupStopped: the spec has `stopped = true`, and the step waits for the start of the group.
	HoldGroupStopped = "group_stopped"
	// HoldStopOrder: another member of the group is stopped first.
	HoldStopOrder = "stop_order"
	// HoldAfterGroup: a group that this one is `after` has not finished, or a group that is after this one goes first.
	HoldAfterGroup = "after_group"
	// HoldClusterLimit: a limit of the cluster has no place for the step (R98).
	HoldClusterLimit = "cluster_limit"
	// HoldGateClosed: a gate of the spec is closed (R150).
	HoldGateClosed = "gate_closed"
	// HoldProtected: an operator protects the Slot from disruptive steps (R139).
	HoldProtected = "protected"
	// HoldDrained: an operator drained the Slot, and the planner leaves it alone (R139).
	HoldDrained = "drained"
	// HoldRolloutFailed: the rollout failed, and the planner begins no voluntary step (R99).
	HoldRolloutFailed = "rollout_failed"
	// HoldFailedStep: another Slot's step failed, and that Slot is not available again (R40).
	HoldFailedStep = "failed_step"
	// HoldMaxUnavailable: the disruption budget is used up (R21).
	HoldMaxUnavailable = "max_unavailable"
	// HoldCallUndecided: the effect of a platform call is not known yet (R66).
	HoldCallUndecided = "platform_result_unknown"
	// HoldVoterCap: the maximum number of voters is in a step (R17).
	HoldVoterCap = "voter_cap"
	// HoldQuorum: the remaining voters would be fewer than a majority (R44).
	HoldQuorum = "quorum"
	// HoldQuorumUnknown: the members' reports do not determine the voters (R43).
	HoldQuorumUnknown = "quorum_unknown"
	// HoldWouldLoseQuorum: a set of two voters cannot spare either (R19).
	HoldWouldLoseQuorum = "would_lose_quorum"
	// HoldInterruption: the only member may not be interrupted (R18).
	HoldInterruption = "interruption_refused"
	// HoldLeaderUnknown: the group has no leader, or more than one (R34).
	HoldLeaderUnknown = "leader_unknown"
	// HoldLeaderLast: the leader is updated after all other members are proven updated (R53, R55).
	HoldLeaderLast = "leader_last"
	// HoldTransferBudget: the one planned transfer of this rollout was made (R53).
	HoldTransferBudget = "transfer_budget"
	// HoldNoCandidate: no member can take over leadership (R54).
	HoldNoCandidate = "no_transfer_candidate"
	// HoldMayDisrupt: the workload says that this member must not be stopped (R52).
	HoldMayDisrupt = "may_disrupt"
	// HoldRecovering: the member makes measured progress in its recovery (R38).
	HoldRecovering = "recovering"
	// HoldBusy: the member transfers, backs up or rebuilds data.
	HoldBusy = "busy"
	// HoldUnknownHealth: the member is silent, but not for long enough to count as broken (R10); or its driver cannot
	// observe it.
	HoldUnknownHealth = "unknown_health"
	// HoldBackoff: an attempt was cancelled a moment ago, and the next one follows after a wait (R37).
	HoldBackoff = "backoff"
	// HoldOpportunistic: the spec updates a Slot only together with another step of that Slot.
	HoldOpportunistic = "opportunistic"
	// HoldActionNotAllowed: the update needs a harsher action than the spec allows (R132).
	HoldActionNotAllowed = "action_not_allowed"
	// HoldUpdateUnfinished: a restart would boot content that the CVM was given and never ran.
	HoldUpdateUnfinished = "update_unfinished"
	// HoldStepDelay: the spec has a pause after the previous step (R96).
	HoldStepDelay = "step_delay"
	// HoldStage: the Slots of an earlier stage are updated first (R94), or a gate on its promotion is closed (R95).
	HoldStage = "stage_in_progress"
	// HoldStageBaking: the Slots of an earlier stage bake (R91).
	HoldStageBaking = "stage_baking"
	// HoldStagePromotion: an operator has to promote the stage first (R95).
	HoldStagePromotion = "stage_needs_promotion"
	// HoldOutsideWindow: all windows of the spec are closed (R97).
	HoldOutsideWindow = "outside_window"
	// HoldRemovalInProgress: the removal of another Slot goes first (R104).
	HoldRemovalInProgress = "removal_in_progress"
	// HoldLeaderNeedsApproval: the spec lets the leader's step wait for an operator.
	HoldLeaderNeedsApproval = "leader_needs_approval"
	// HoldVersionStep: the server of the Revision certainly cannot run on the disk of the Slot.
	HoldVersionStep = "version_step"
	// HoldIrreversible: after the step an older version no longer runs on the data, and the spec lets it wait for an
	// operator.
	HoldIrreversible = "irreversible_step"
	// HoldPredecessor: ORDERED_READY waits for the previous Slot.
	HoldPredecessor = "predecessor"
	// HoldMaxCreating: the maximum number of Slots is being created (R107).
	HoldMaxCreating = "max_creating"
	// HoldAppID: the first create yields the app id that the other CVMs join.
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
	// HoldNotApproved: an operator has to approve the Revision first (ATT-15).
	HoldNotApproved = "not_approved"
	// HoldBelowFloor: the Revision is older than the group's floor (ATT-25, OPS-06).
	HoldBelowFloor = "below_floor"
	// HoldRevoked: the Revision is revoked.
	HoldRevoked = "revoked"
	// HoldSecretNoValue: an operator has to give the value of a secret first. Admission would refuse the Boot.
	HoldSecretNoValue = "secret_no_value"
	// HoldDeleteDisks: the removal of the Slot deletes a disk, and no operator has given up that disk.
	HoldDeleteDisks = "delete_disks"
	// HoldSetChanging: another member is joining the workload's set, or leaving it (R47, R48).
	HoldSetChanging = "set_changing"
	// HoldVoterScaleIn: no driver of the group can change the voters, so the planner removes no voter (R46).
	HoldVoterScaleIn = "voter_scale_in"
	// HoldInsufficientReports: too few agents report to know the cost of a step (R120).
	HoldInsufficientReports = "insufficient_reports"
	// HoldLeaderByPeers: the member is silent, and its followers name it as their leader (R125).
	HoldLeaderByPeers = "leader_by_peers"
	// HoldFollowerByLeader: the member is silent, and the leader reports that it follows (R125).
	HoldFollowerByLeader = "follower_by_leader"
	// HoldPlatformBusy: the platform works on the CVM. The wait lasts at most as long as a boot may take.
	HoldPlatformBusy = "platform_busy"
	// HoldRefused: the platform refused the call the maximum number of times.
	HoldRefused = "refused"
	// HoldPrecondition: the platform would measure another Revision than the policy judged, or does not offer a
	// resource that the Revision names (R74).
	HoldPrecondition = "precondition"
	// HoldNoSource: no member has the data to rebuild a replaced member from (R136).
	HoldNoSource = "no_data_source"
	// HoldTargetUnproven: the rollout replaces members, and no member has proven the target yet (R15b).
	HoldTargetUnproven = "target_unproven"
	// HoldReplaceInProgress: only one Slot is replaced at a time (R115).
	HoldReplaceInProgress = "replace_in_progress"
	// HoldQuarantined: all attempts to heal the Slot failed (R118).
	HoldQuarantined = "quarantined"
	// HoldHealBackoff: the first attempt to heal follows after the fault has lasted (R113), the next one after a
	// wait (R118).
	HoldHealBackoff = "heal_backoff"
	// HoldHealInProgress: the maximum number of Slots is being healed (R117).
	HoldHealInProgress = "heal_in_progress"
	// HoldHealStorm: so many members are unhealthy that they may share one cause. Repairs go on at a low rate, and
	// no disk is given up (R119, R120).
	HoldHealStorm = "heal_storm"
	// HoldUnmanagedInstance: a CVM carries the Slot's name, and no record binds it.
	HoldUnmanagedInstance = "unmanaged_instance"
	// HoldNotAMember: the set no longer lists the member, and no step is under way that would create it again.
	HoldNotAMember = "not_a_member"
	// HoldSurgeWaits: no step that the extra Slot is for may begin (R15).
	HoldSurgeWaits = "surge_waits"
	// HoldPlacement: a hard rule of the placement lets no node be chosen for the CVM.
	HoldPlacement = "placement"
	// HoldDomain: the update of another failure domain is finished first.
	HoldDomain = "domain_in_progress"
	// HoldScaleInOrder: one Slot is removed at a time, the highest ordinal first (R109).
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
