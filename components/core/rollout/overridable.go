package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
)

// MaxHoldOverride bounds the time of an override of a hold.
const MaxHoldOverride = 24 * time.Hour

// overridable are the holds that an operator may override for one group and a bounded time (R141). The value is the
// risk to a quorum, to copies of data or to all members at once, which the operator confirms by the group's name
// (R142); "": none.
var overridable = map[string]string{
	HoldOutsideWindow:       "",
	HoldStepDelay:           "",
	HoldStageBaking:         "",
	HoldAfterGroup:          "",
	HoldDomain:              "",
	HoldBackoff:             "",
	HoldFailedStep:          "",
	HoldLeaderNeedsApproval: "",
	HoldHealInProgress:      "",

	HoldMaxUnavailable:  "without it all members of a group without voters may be taken away at once",
	HoldVoterCap:        "several voters may be taken away at once, and one more failure loses the quorum",
	HoldWouldLoseQuorum: "a set of two voters loses its quorum while the step runs",
	HoldInterruption:    "the only member is taken away, and the service with it",
	HoldMayDisrupt:      "the workload says that the member must not be stopped; it may hold the last copy of data",
	HoldBusy:            "a transfer, a backup or a rebuild of data is cut off",
	HoldRecovering:      "the recovery of a member begins again",
	HoldHealStorm:       "healing restarts members at once that may share one cause, and may give up disks",
}

// notOverridable are all other holds, with the reason and the way out.
var notOverridable = map[string]string{
	HoldNotApproved:         "it is a decision of admission: cadre admission approve REVISION",
	HoldBelowFloor:          "it is a decision of admission: a floor never falls",
	HoldRevoked:             "it is a decision of admission: cadre admission unrevoke",
	HoldSecretNoValue:       "admission would refuse the boot: cadre secret set",
	HoldIncomplete:          "the leader does not know what it would do: repair the source that the hold names",
	HoldCallUndecided:       "an effect may still show: cadre operation mark-succeeded, or mark-failed",
	HoldDuplicate:           "one slot must not run twice: remove the wrong CVM on the platform",
	HoldReplaced:            "it is the slot's binding: remove the foreign CVM on the platform",
	HoldInstanceMissing:     "it is the slot's binding: cadre instance replace SLOT",
	HoldUnmanagedInstance:   "it is the slot's binding: cadre group adopt GROUP",
	HoldNotAMember:          "the set removed the member: cadre instance replace SLOT",
	HoldPrecondition:        "the platform would measure another revision than was judged, or lacks what it needs: change the spec or the platform",
	HoldAppID:               "the first CVM allots the app id of the others: wait",
	HoldPlatformBusy:        "the platform would refuse the call: wait",
	HoldRefused:             "the platform refused the call: cadre rollout retry GROUP --reason WHY",
	HoldPaused:              "cadre rollout resume GROUP ends the pause",
	HoldFrozen:              "cadre unfreeze ends the freeze",
	HoldDrained:             "cadre instance undrain SLOT ends the drain",
	HoldProtected:           "cadre instance unprotect SLOT ends the protection",
	HoldGateClosed:          "cadre gate open GROUP/GATE opens the gate",
	HoldGroupStopped:        "stopped = false in the spec starts the group",
	HoldStopOrder:           "the order keeps the data of the last leader: wait",
	HoldRolloutFailed:       "cadre rollout retry GROUP --reason WHY lets the rollout go on",
	HoldOpportunistic:       "cadre instance update SLOT updates a slot",
	HoldActionNotAllowed:    "update_policy.most_disruptive_allowed_action permits harsher actions",
	HoldUpdateUnfinished:    "a restart would change the revision: cadre instance update SLOT",
	HoldVersionStep:         "the server cannot run on the data",
	HoldIrreversible:        "no step leads back; cadre instance update SLOT names the one slot",
	HoldQuorum:              "the workload would stop for want of a majority: repair a voter first",
	HoldQuorumUnknown:       "nothing proves that a majority stays: reach the agents",
	HoldLeaderUnknown:       "nothing proves who leads: repair the workload, or reach the agents",
	HoldLeaderLast:          "each further hand-over is an interruption: cadre instance update SLOT names the leader",
	HoldTransferBudget:      "a rollout has one planned hand-over; a request by name has its own",
	HoldNoCandidate:         "no member can take over: repair one first",
	HoldUnknownHealth:       "the member may serve or lead: wait, or cadre instance restart SLOT",
	HoldInsufficientReports: "the coordinator may be cut off itself: check its way to the members",
	HoldLeaderByPeers:       "the member leads, as its followers report: reach its agent",
	HoldFollowerByLeader:    "the member follows, as its leader reports: reach its agent",
	HoldRemovalInProgress:   "the removal changes the same set: wait",
	HoldStage:               "the next stage opens when the slots of this stage have arrived and baked, and its gates are open: cadre instance update SLOT updates a slot before its stage",
	HoldStagePromotion:      "cadre rollout promote GROUP promotes the stage",
	HoldClusterLimit:        "the bound is that of all groups: cadre limits set, or a higher priority in the spec",
	HoldSurgeWaits:          "it follows from the hold of the updates: override that one",
	HoldMaxCreating:         "update_policy.max_creating creates more slots at a time",
	HoldTargetUnproven:      "no CVM is deleted for a revision that no slot has proven: wait for the extra slot",
	HoldPredecessor:         "management_policy = \"PARALLEL\" creates all slots at once",
	HoldPlacement:           "placement.require is the spec's own rule: change the rule",
	HoldSetChanging:         "two changes of a set at once can lose its majority: wait",
	HoldVoterScaleIn:        "no driver can remove the voter: raise replicas again",
	HoldPreservedState:      "the disk would be deleted: remove preserved_state from the spec",
	HoldDeleteDisks:         "the disk would be deleted: cadre group apply --delete-disks",
	HoldOthersUnavailable:   "a removal takes a copy of the data for good: repair the others first",
	HoldScaleInOrder:        "one slot goes at a time: wait",
	HoldNoSource:            "no member has the data to rebuild from: bring one back first",
	HoldReplaceInProgress:   "two rebuilds at once leave too few copies of the data: wait",
	HoldQuarantined:         "cadre instance restart SLOT repairs the slot again",
	HoldHealBackoff:         "cadre instance restart SLOT repairs the slot at once",
}

// Overridable returns the holds that an operator may override, sorted.
func Overridable() []string { return slices.Sorted(maps.Keys(overridable)) }

// HoldOverrideRequest is an operator's wish to override one hold.
type HoldOverrideRequest struct {
	Group, Hold, Reason string
	For                 time.Duration
	// Confirm is the name of the group as the operator typed it, for a hold with a risk.
	Confirm string
}

// Problems returns all that is wrong with the request (R141, R142).
func (r HoldOverrideRequest) Problems() (problems []group.Problem) {
	add := func(path, rule, format string, args ...any) {
		problems = append(problems, group.Problem{Path: path, Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
	risk, passes := overridable[r.Hold]
	switch why, known := notOverridable[r.Hold]; {
	case known:
		add("hold", "R141", "%s cannot be overridden: %s", r.Hold, why)
	case !passes:
		add("hold", "R140", "%.64q is no hold; those that can be overridden: %s", r.Hold, strings.Join(Overridable(), ", "))
	}
	if strings.TrimSpace(r.Reason) == "" {
		add("reason", "R141", "is missing: the plan, the operation and the audit chain show it")
	}
	switch {
	case r.For == 0:
		add("for", "R141", "is missing: an override of a hold lasts a bounded time, at most 24h")
	case r.For < 0 || r.For > MaxHoldOverride:
		add("for", "R141", "is %s: must be more than 0, at most 24h", r.For)
	}
	switch {
	case risk == "" && passes && r.Confirm != "":
		add("confirm", "R142", "is for a hold with a risk: leave it out for %s", r.Hold)
	case risk != "" && r.Confirm == "":
		add("confirm", "R142", "is missing: %s. To go on, confirm with the name of the group: %s", risk, r.Group)
	case risk != "" && r.Confirm != r.Group:
		add("confirm", "R142", "is %.64q, and the group is %s: %s", r.Confirm, r.Group, risk)
	}
	return problems
}
