package rollout

import "cadre.dev/core/operation"

// holdsOf returns every reason why c may not run now: at the preflight check, or at the precommit check of l.op.
func (w *world) holdsOf(c candidate, l evaluation) []Hold {
	holds, _ := w.passed(w.allHoldsOf(c, l))
	return holds
}

// allHoldsOf returns the holds of c, overridden holds included.
func (w *world) allHoldsOf(c candidate, l evaluation) []Hold {
	var holds []Hold
	for i := range predicates {
		if p := &predicates[i]; (l.op == nil || p.once == "") && p.appliesTo(w, &c) {
			holds = append(holds, p.check(w, c, l)...)
		}
	}
	return holds
}

// predicates are all the rules, in the order of their reported reasons.
var predicates = []predicate{
	{names: []string{HoldNotApproved, HoldBelowFloor, HoldRevoked}, only: notDelete, check: (*world).holdsOfPolicy,
		once: "the policy is judged again, by hash, when the Revision is allowed"},
	{names: []string{HoldSecretNoValue}, only: []operation.Kind{operation.Create, operation.Update, operation.Restart, operation.Replace},
		check: (*world).holdsOfSecrets},
	{names: []string{HoldIncomplete}, check: (*world).holdsOfBlindness},
	{names: []string{HoldPaused, HoldFrozen}, check: (*world).holdsOfSwitches,
		once: "a pause calls the Operation off (R92)"},
	{names: []string{HoldGroupStopped}, only: notDrain, check: (*world).holdsOfStopped,
		once: "a stop of the group makes the Operation unwanted"},
	{names: []string{HoldStopOrder}, only: []operation.Kind{operation.Stop}, check: (*world).holdsOfStop,
		once: "a stop that began goes on"},
	{names: []string{HoldGateClosed}, stops: true, only: notDrain, check: (*world).holdsOfGates,
		once: "a gate that closes calls the Operation off"},
	{names: []string{HoldAfterGroup}, only: []operation.Kind{operation.Create, operation.Update, operation.Delete}, check: (*world).holdsOfAfter,
		once: "a step that began is finished"},
	{names: []string{HoldDrained}, only: notDrain, check: (*world).holdsOfDrain,
		once: "a drain calls the Operation off"},
	{names: []string{HoldProtected}, from: disruptive, check: (*world).holdsOfProtection,
		once: "a protection calls the Operation off"},
	{names: []string{HoldRolloutFailed}, only: []operation.Kind{operation.Update}, check: (*world).holdsOfFailure,
		once: "a failed rollout makes the Operation unwanted"},
	{names: []string{HoldOpportunistic}, only: []operation.Kind{operation.Update}, check: (*world).holdsOfType,
		once: "a change of the type is a new decision"},
	{names: []string{HoldActionNotAllowed}, only: []operation.Kind{operation.Update}, check: (*world).holdsOfHarshness,
		once: "a lower bound makes the Operation unwanted"},
	{names: []string{HoldRemovalInProgress}, only: []operation.Kind{operation.Update}, voluntary: true, check: (*world).holdsOfRemoval,
		once: "a later removal waits until all Slots are available"},
	{names: []string{HoldLeaderNeedsApproval}, only: []operation.Kind{operation.Update}, stops: true, voluntary: true, actor: operation.ActorRollout,
		check: (*world).holdsOfAsking, once: "a step that began was requested, or its Slot did not lead"},
	{names: []string{HoldVersionStep}, only: []operation.Kind{operation.Update, operation.Replace}, stops: true, check: (*world).holdsOfVersion},
	{names: []string{HoldIrreversible}, only: []operation.Kind{operation.Update}, stops: true, actor: operation.ActorRollout,
		check: (*world).holdsOfIrreversible, once: "a step that began was requested, or another member had the older version"},
	{names: []string{HoldStepDelay}, only: []operation.Kind{operation.Update}, voluntary: true, actor: operation.ActorRollout,
		check: (*world).holdsOfDelay, once: "the rule is about the beginning of a step"},
	{names: []string{HoldOutsideWindow}, only: []operation.Kind{operation.Update}, voluntary: true, actor: operation.ActorRollout,
		check: (*world).holdsOfWindow, once: "the rule is about the beginning of a step"},
	{names: []string{HoldDomain}, only: []operation.Kind{operation.Update}, stops: true, voluntary: true, actor: operation.ActorRollout,
		check: (*world).holdsOfDomain, once: "the rule is about the beginning of a step"},
	{names: []string{HoldStage, HoldStageBaking, HoldStagePromotion}, only: []operation.Kind{operation.Update}, actor: operation.ActorRollout,
		check: (*world).holdsOfStage, once: "the rule is about the beginning of a step"},
	{names: []string{HoldUpdateUnfinished}, only: []operation.Kind{operation.Restart}, actor: operation.ActorOperator,
		check: (*world).holdsOfUnfinished, once: "nothing else is given to a CVM while its restart is open"},
	{names: []string{HoldCallUndecided}, check: (*world).holdsOfUndecided,
		once: "a step that began is finished; the budget counts the other one"},
	{names: []string{HoldDuplicate, HoldInstanceMissing, HoldReplaced, HoldUnmanagedInstance, HoldNotAMember}, check: (*world).holdsOfBinding,
		once: "Advance compares the CVM itself (R63)"},
	{names: []string{HoldPlatformBusy}, check: (*world).holdsOfPlatform,
		once: "Advance waits for the platform"},
	{names: []string{HoldBackoff, HoldRefused}, check: (*world).holdsOfTries, once: "the rule is about another attempt"},
	{names: []string{HoldPrecondition}, only: []operation.Kind{operation.Update}, check: (*world).holdsOfPrecondition,
		once: "a refusal calls the Operation off"},

	{names: []string{HoldPredecessor, HoldMaxCreating, HoldAppID}, only: []operation.Kind{operation.Create}, check: (*world).holdsOfCreate,
		once: "a creation takes nothing away"},
	{names: []string{HoldSurgeWaits}, only: []operation.Kind{operation.Create}, check: (*world).holdsOfSurge,
		once: "a creation takes nothing away"},
	{names: []string{HoldPlacement}, only: []operation.Kind{operation.Create, operation.Replace}, check: (*world).holdsOfPlacement},

	{names: []string{HoldSetChanging, HoldVoterScaleIn}, only: []operation.Kind{operation.Create, operation.Delete, operation.Replace},
		check: (*world).holdsOfSet},
	{names: []string{HoldPreservedState, HoldDeleteDisks}, only: []operation.Kind{operation.Delete},
		check: (*world).holdsOfDisk},
	{names: []string{HoldScaleInOrder, HoldOthersUnavailable}, only: []operation.Kind{operation.Delete},
		check: (*world).holdsOfScaleIn},
	{names: []string{HoldTargetUnproven}, from: destructive, only: []operation.Kind{operation.Replace}, actor: operation.ActorRollout,
		check: (*world).holdsOfUnproven},
	{names: []string{HoldNoSource, HoldReplaceInProgress}, only: []operation.Kind{operation.Replace},
		check: (*world).holdsOfReplace},
	{names: []string{HoldQuarantined, HoldHealBackoff, HoldHealInProgress, HoldHealStorm}, from: disruptive,
		only: []operation.Kind{operation.Restart, operation.Replace}, actor: operation.ActorHealing,
		check: (*world).holdsOfHealing},
	{names: []string{HoldFollowerByLeader}, from: disruptive, only: []operation.Kind{operation.Restart, operation.Replace}, actor: operation.ActorHealing,
		check: (*world).holdsOfNamedFollower},

	{names: []string{HoldInsufficientReports}, from: disruptive, voluntary: true, check: (*world).holdsOfHearing},
	{names: []string{HoldLeaderByPeers}, stops: true, from: disruptive, check: (*world).holdsOfNamedLeader},
	{names: []string{HoldMaxUnavailable}, from: disruptive, check: (*world).holdsOfBudget},
	{names: []string{HoldFailedStep}, from: disruptive, voluntary: true, check: (*world).holdsOfFailedSteps,
		once: "the failed Slot counts in the budget"},
	{names: []string{HoldInterruption, HoldVoterCap, HoldLeaderUnknown, HoldQuorum, HoldQuorumUnknown, HoldWouldLoseQuorum},
		stops: true, from: disruptive, check: (*world).holdsOfQuorum},
	{names: []string{HoldLeaderLast, HoldTransferBudget, HoldNoCandidate}, stops: true, from: disruptive, check: (*world).holdsOfLeader},
	{names: []string{HoldMayDisrupt}, stops: true, from: disruptive, check: (*world).holdsOfDriver},
	{names: []string{HoldUnknownHealth, HoldBusy, HoldRecovering}, from: disruptive, check: (*world).holdsOfMember,
		once: "may_disrupt reports a later backup"},
	{names: []string{HoldClusterLimit}, only: []operation.Kind{operation.Create, operation.Update}, check: (*world).holdsOfLimits,
		once: "a recorded step has its place"},
}
