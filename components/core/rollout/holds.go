package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
)

// holdsOfBlindness holds all steps while the observation is incomplete or stale.
func (w *world) holdsOfBlindness(candidate, evaluation) []Hold {
	switch age := w.now.Sub(w.obs.At); {
	case !w.obs.Complete():
		return []Hold{hold(HoldIncomplete, "%s", w.obs.Incomplete())}
	case age > w.t.StaleAfter:
		return []Hold{hold(HoldIncomplete, "the observation is %s old", short(age))}
	}
	return nil
}

// holdsOfSwitches are the freeze and the pause of an operator.
func (w *world) holdsOfSwitches(c candidate, _ evaluation) []Hold {
	var holds []Hold
	if w.obs.Freeze != nil {
		holds = append(holds, w.frozen())
	}
	if w.pausedFor(c.kind, c.actor) {
		also := ""
		if c.kind == operation.Update {
			also = ", or for this slot alone: cadre instance update " + c.m.slot
		}
		holds = append(holds, w.obs.Pause.hold(HoldPaused, "the group is paused by an operator%s; to go on: cadre rollout resume "+w.spec.Name+also))
	}
	return holds
}

// pausedFor reports that the group's pause applies to such Actions. Healing (R92) and scaling out (R108) continue.
// So does a step by an operator's request for a Slot, since an operator pauses a group to repair it. A deletion of
// the group continues as well. Both evaluations call pausedFor: if they differed, the first would begin a step and
// the second would cancel it, again and again.
func (w *world) pausedFor(k operation.Kind, by operation.Actor) bool {
	scaleOut := k == operation.Create && w.stable != ""
	passes := by == operation.ActorHealing || by == operation.ActorOperator
	return w.obs.Pause != nil && !passes && !scaleOut && !w.ending()
}

// stopped reports that a freeze or the group's pause keeps such Actions from beginning.
func (w *world) stopped(k operation.Kind, by operation.Actor) bool {
	return w.obs.Freeze != nil || w.pausedFor(k, by)
}

// frozen is the Hold of the present freeze.
func (w *world) frozen() Hold {
	return w.obs.Freeze.hold(HoldFrozen, "frozen by an operator%s; lift the freeze to go on: cadre unfreeze"+w.obs.Freeze.scope())
}

// stoppedBy describes the freeze or the pause for operators; "": neither.
func (w *world) stoppedBy() string {
	switch {
	case w.obs.Freeze != nil:
		return "frozen by an operator" + w.obs.Freeze.text()
	case w.obs.Pause != nil:
		return "paused by an operator" + w.obs.Pause.text()
	}
	return ""
}

// holdsOfFailure: after a failure no voluntary step begins until an operator decides (R99).
func (w *world) holdsOfFailure(c candidate, _ evaluation) []Hold {
	switch {
	case c.marked && c.m.attempts(c.to) > 0:
		return nil
	case w.tolerates(c.m):
		return []Hold{hold(HoldRolloutFailed, "max_failed tolerates that its step failed: %s; to try it again: cadre instance update %s", w.evidenceOf(c.m).Reason, c.m.slot)}
	case w.rollout.State != operation.FailedState:
		return nil
	}
	return []Hold{hold(HoldRolloutFailed, "the rollout failed (%s); write a corrected spec, go back: cadre rollout undo %s, or let it go on: cadre rollout retry %s --reason WHY", w.rollout.Reason, w.spec.Name, w.spec.Name)}
}

// holdsOfType: OPPORTUNISTIC updates a Slot only together with another step of that Slot, such as its repair, if the spec
// lets a repair change the Revision.
func (w *world) holdsOfType(c candidate, _ evaluation) []Hold {
	if w.spec.UpdatePolicy.Type != group.Opportunistic || c.marked || c.class == ClassBroken && !w.healsAtRunning() {
		return nil
	}
	return []Hold{hold(HoldOpportunistic, "updates are OPPORTUNISTIC; to update this slot: cadre instance update %s", c.m.slot)}
}

// holdsOfUndecided: while the effect of one platform call is unknown, no other call is made (R66).
func (w *world) holdsOfUndecided(c candidate, _ evaluation) []Hold {
	other := otherThan(c.m, w.tally.undecided)
	if other == nil {
		return nil
	}
	return []Hold{hold(HoldCallUndecided, "the platform call for %s is not decided yet", other.slot)}
}

// holdsOfBinding are the holds about the identity of the CVM.
func (w *world) holdsOfBinding(c candidate, _ evaluation) []Hold {
	m, i := c.m, c.m.seen.Instance
	var holds []Hold
	if n := len(m.seen.Duplicates); n > 0 {
		holds = append(holds, hold(HoldDuplicate, "%d CVMs carry the name of %s; remove the wrong ones on the platform", n+1, m.slot))
	}
	switch {
	case m.unmanaged() && (w.appID == "" || i.AppID == "" || i.AppID == w.appID):
		holds = append(holds, hold(HoldUnmanagedInstance, "CVM %s carries the name of %s and no record binds it; to bind what it attests: cadre group adopt %s",
			i.VMUUID, m.slot, w.spec.Name))
	case m.vanished() && c.kind == operation.Create:
		holds = append(holds, w.holdOfGone(m))
	case c.kind == operation.Replace && c.actor == operation.ActorScaling:
		holds = append(holds, hold(HoldNotAMember,
			"%s was taken out of its workload's set, and does not come back with what is on its disk; to have it made anew: cadre instance replace %s", m.slot, m.slot))
	case i != nil && m.record.VMUUID != i.VMUUID,
		i != nil && m.record.InstanceID != "" && i.InstanceID != "" && m.record.InstanceID != i.InstanceID:
		holds = append(holds, hold(HoldReplaced, "the platform shows CVM %s under the name of %s, which is bound to %s",
			i.VMUUID, m.slot, cmp.Or(m.record.VMUUID, "none of this app")))
	}
	return holds
}

// holdOfGone: a CVM is gone with its disk. While healing is about to create another CVM, no operator has to ask for
// it.
func (w *world) holdOfGone(m *member) Hold {
	gone := fmt.Sprintf("the CVM of %s (%s) is gone from the platform, and its disk with it", m.slot, cmp.Or(m.record.VMUUID, m.record.InstanceID))
	// Only a recent report of the agent keeps the fault from being certain.
	if a, faulty := w.faultOf(m); (faulty || a.gone && w.spec.HealsOn(a.on)) && a.at.After(w.now) {
		if r, ok := w.remedyFor(m, a); ok && !w.spent(m, r) {
			return holdUntil(a.at, HoldHealBackoff, "%s; healing has a new one made in %s unless it comes back by itself", gone, short(a.at.Sub(w.now)))
		}
	}
	return hold(HoldInstanceMissing, "%s; to have a new one made: cadre instance replace %s", gone, m.slot)
}

// holdsOfPlatform waits for the platform's task on the CVM. The platform would refuse a call now, and a CVM that
// terminates reaches its end.
func (w *world) holdsOfPlatform(c candidate, _ evaluation) []Hold {
	m := c.m
	if !w.platformWorks(m) || m.open != nil {
		return nil
	}
	return []Hold{holdUntil(w.worksUntil(m), HoldPlatformBusy, "the platform is busy with the CVM of %s (%s)", m.slot, cmp.Or(m.seen.Instance.Status, "in progress"))}
}

// holdsOfCreate: creations follow the management policy.
func (w *world) holdsOfCreate(c candidate, l evaluation) []Hold {
	var holds []Hold
	// No member that bootstraps a set is available before a majority of them runs.
	if w.spec.ManagementPolicy != group.Parallel && !w.founds(c.m) {
		if before := w.predecessor(c.m); before != nil {
			holds = append(holds, hold(HoldPredecessor, "waits for %s: %s", before.slot, before.whyNot()))
		}
	}
	if limit, n := w.spec.UpdatePolicy.MaxCreating, len(w.tally.creating)+len(l.taken.creates); limit != nil && n >= *limit && !w.founds(c.m) {
		holds = append(holds, hold(HoldMaxCreating, "max_creating is %d, and %d %s being created", *limit, n, pick(n == 1, "slot is", "slots are")))
	}
	if w.appID == "" && (len(l.taken.creates) > 0 || otherThan(c.m, w.tally.creating) != nil) {
		holds = append(holds, hold(HoldAppID, "the first CVM of the group allots the app id; the others follow"))
	}
	if silent := w.obs.SilentNodes; len(silent) > 0 && w.madeAppID() == "" {
		holds = append(holds, hold(HoldAppID, "%s %s not answer, and a new app needs the answer of every node",
			plural(len(silent), "node")+" "+names.Few(silent, ", "), pick(len(silent) == 1, "does", "do")))
	}
	return holds
}

// predecessor is the first Slot before m that is not available. An extra Slot has no predecessor: the other Slots may
// wait for it. A pass creates before it takes an available member away.
func (w *world) predecessor(m *member) *member {
	if first := otherThan(m, w.tally.notAvailable); !m.extra && first != nil && first.ordinal < m.ordinal {
		return first
	}
	return nil
}

// holdsOfScaleIn: the highest ordinal goes first, one Slot at a time. Every other member must be available at each
// evaluation, however long the drain took. A member that is out of its set, or never got its vote, takes no vote
// away. While it is listed, the members that are not available may wait for its removal (R104).
func (w *world) holdsOfScaleIn(c candidate, l evaluation) []Hold {
	if w.ending() || w.voteless(c.m) {
		return nil
	}
	var holds []Hold
	if first := w.firstTerminating(); first != nil && first != c.m && l.op == nil {
		holds = append(holds, hold(HoldScaleInOrder, "waits for the removal of %s", first.slot))
	}
	_, blocking := w.waitedFor(c, w.waitable(w.tally.notAvailable))
	if blocking == nil && len(l.taken.order) > 0 && !l.taken.order[0].terminating {
		blocking = l.taken.order[0] // a step of this pass counts as begun, even if it is a step of a Slot that is wanted again
	}
	if blocking != nil && !c.left {
		holds = append(holds, hold(HoldOthersUnavailable, "waits for %s: %s", blocking.slot, blocking.whyNot()))
	}
	return holds
}

// firstTerminating is the member that is removed first. A member whose removal needs an operator's decision delays no
// other removal.
func (w *world) firstTerminating() *member {
	return w.found.terminating.of(func() *member {
		var first *member
		for _, m := range w.terminating {
			switch {
			case m.open != nil && m.open.Kind != operation.Drain:
				return m // a removal in progress continues, even if a higher ordinal is to be removed by now
			case m.seen.Instance == nil, m.keptByHand(), len(w.holdsOfDisk(candidate{m: m, kind: operation.Delete}, evaluation{})) > 0:
			case first == nil, w.deadVoter(m) && !w.deadVoter(first) && w.mayGoNow(m):
				first = m
			}
		}
		return first
	})
}

// mayGoNow reports that no condition of m itself or its CVM holds its removal. A member that waits does not precede
// another.
func (w *world) mayGoNow(m *member) bool {
	c := removalOf(m)
	return len(w.holdsOfBinding(c, evaluation{}))+len(w.holdsOfMember(c, evaluation{}))+len(w.holdsOfPlatform(c, evaluation{})) == 0
}

// deadVoter reports that m counts in its set, and that its CVM does not run or its agent reports that it takes no
// part. It is removed before healthy members (R48): without one of them, the others may be too few to decide the
// removal.
func (w *world) deadVoter(m *member) bool {
	return w.view.voting && slices.Contains(w.view.voters, m.slot) && (m.stopped() || m.report != nil && !w.view.healthy[m.slot])
}

// holdsOfMember are the holds that the workload itself requests.
func (w *world) holdsOfMember(c candidate, _ evaluation) []Hold {
	m, r := c.m, c.m.report
	if c.service != "" && c.actor == operation.ActorOperator && !m.speaks {
		return []Hold{hold(HoldUnknownHealth, "%s is silent, and hears no order to restart service %s; ask for a restart of its CVM: cadre instance restart %s", m.slot, c.service, m.slot)}
	}
	if node := w.silentNode(m); node != "" && m.heardNow() {
		return []Hold{hold(HoldUnknownHealth, "%s, and the agent of %s reports: its CVM runs there", node, m.slot)}
	}
	if r == nil && c.condition == well && !m.ready && m.open == nil {
		return []Hold{w.holdOfSilence(m)}
	}
	if h := w.holdsOfMute(c); len(h) > 0 {
		return h
	}
	if r == nil {
		return nil
	}
	var holds []Hold
	switch until := m.recoversUntil(); { // the recorded lag, so that not every report changes the message
	case len(r.Busy) == 0:
	case m.inService():
		holds = append(holds, hold(HoldBusy, "%s is busy: %s", m.slot, r.Busy[0]))
	case r.LagBytes != nil && !m.ready && w.now.Before(until):
		holds = append(holds, holdUntil(until, HoldRecovering, "%s is recovering: %s, %d bytes behind; waited for until %s unless that falls", m.slot, r.Busy[0], m.record.Recovery.LagBytes, until.UTC().Format(time.TimeOnly)))
	}
	return holds
}

// holdsOfMute: a workload that gives no answer is not touched while the fault may be transient. A rollout does not
// touch it either while no member reports the leader, since the silent workload may lead.
func (w *world) holdsOfMute(c candidate) []Hold {
	m := c.m
	if c.refresh || c.kind == operation.Delete || m.open != nil {
		return nil
	}
	if w.driverFails(m) && c.actor == operation.ActorRollout && c.condition == well {
		return []Hold{hold(HoldUnknownHealth, "the driver of %s cannot observe its workload, which was ready in this boot: %s; once that is understood: cadre instance update %s",
			m.slot, cmp.Or(m.report.Message, "its driver has not answered yet"), m.slot)}
	}
	if !w.unanswered(m) {
		return nil
	}
	why := cmp.Or(m.report.Message, "its driver does not say why")
	switch until := m.record.DownSince.Add(unwellFor); {
	case c.condition == well && w.now.Before(until):
		return []Hold{holdUntil(until, HoldUnknownHealth, "the workload of %s gives no answer, which may pass: %s", m.slot, why)}
	case c.condition == impaired && c.actor == operation.ActorRollout && w.view.leader == "" && len(w.members) > 1:
		return []Hold{hold(HoldUnknownHealth, "the workload of %s gives no answer (%s), and no member says who leads: it may lead; once that is understood: cadre instance update %s", m.slot, why, m.slot)}
	}
	return nil
}

// driverFails reports that m was ready in its present Boot, and that its driver cannot observe it now: an adapter may be
// broken. The workload may serve, lead, or hold the last copy, and nothing says that it may stop.
func (w *world) driverFails(m *member) bool {
	a := m.seen.Admission
	return m.report != nil && group.HasDriver(w.spec) && !m.report.MemberKnown && a != nil && a.BootID != "" && m.record.AvailableBoot == a.BootID
}

func (w *world) holdOfSilence(m *member) Hold {
	until := w.lostAt(m)
	return holdUntil(until, HoldUnknownHealth, "%s is silent; it counts as lost at %s", m.slot, until.UTC().Format(time.TimeOnly))
}

// holdsOfDriver asks the workload whether m may be stopped. A step that repairs a member out of service needs no
// permission. For a healthy member, unknown counts as no (R52).
func (w *world) holdsOfDriver(c candidate, l evaluation) []Hold {
	m, r := c.m, c.m.report
	if !m.ready || m.open != nil && l.op == nil {
		return nil
	}
	if r == nil || r.MayDisrupt || !group.HasDriver(w.spec) && r.MayDisruptReason == "" {
		return nil
	}
	return []Hold{hold(HoldMayDisrupt, "%s must not be stopped now: %s", m.slot, cmp.Or(r.MayDisruptReason, "its driver does not say that it may"))}
}

// holdsOfFailedSteps is R40: no further healthy Slot is disrupted while the Slot of a failed step is not available
// again.
func (w *world) holdsOfFailedSteps(c candidate, _ evaluation) []Hold {
	if c.marked && c.condition == lost {
		return nil // an operator who names a silent Slot has seen it
	}
	if c.kind == operation.Delete && w.voteless(c.m) {
		return nil // the other member may wait for exactly this removal
	}
	_, m := w.waitedFor(c, w.waitable(w.tally.failedBack))
	if m == nil {
		return nil
	}
	return []Hold{hold(HoldFailedStep, "the step of %s failed (%s) and it is not available again", m.slot, m.last().Reason)}
}
