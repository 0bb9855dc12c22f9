package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// holdsOfBlindness: what is not seen is not acted on.
func (w *world) holdsOfBlindness(candidate, look) []Hold {
	switch age := w.now.Sub(w.obs.At); {
	case !w.obs.Complete():
		return []Hold{hold(HoldIncomplete, "%s", w.obs.Incomplete())}
	case age > w.t.StaleAfter:
		return []Hold{hold(HoldIncomplete, "the observation is %s old", short(age))}
	}
	return nil
}

// holdsOfSwitches are an operator's.
func (w *world) holdsOfSwitches(c candidate, _ look) []Hold {
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

// pausedFor: the group's pause is about such Actions. Healing (R92) and scaling out (R108) go on,
// so does what an operator asks for by a Slot's name, since who paused has something to mend, and
// who deletes the group wants it gone all the same. Both looks ask here: what one let
// begin and the other called off would begin for ever.
func (w *world) pausedFor(k operation.Kind, by operation.Actor) bool {
	scaleOut := k == operation.Create && w.stable != ""
	passes := by == operation.ActorHealing || by == operation.ActorOperator
	return w.obs.Pause != nil && !passes && !scaleOut && !w.ending()
}

// stopped: a freeze or the group's pause keeps such Actions from beginning.
func (w *world) stopped(k operation.Kind, by operation.Actor) bool {
	return w.obs.Freeze != nil || w.pausedFor(k, by)
}

// frozen is the Hold of a freeze that stands.
func (w *world) frozen() Hold {
	return w.obs.Freeze.hold(HoldFrozen, "frozen by an operator%s; lift the freeze to go on: cadre unfreeze"+w.obs.Freeze.scope())
}

// stoppedBy is which of the two it is, for people; "": neither.
func (w *world) stoppedBy() string {
	switch {
	case w.obs.Freeze != nil:
		return "frozen by an operator" + w.obs.Freeze.text()
	case w.obs.Pause != nil:
		return "paused by an operator" + w.obs.Pause.text()
	}
	return ""
}

// holdsOfFailure: after a failure nothing voluntary moves until somebody decides (R99).
func (w *world) holdsOfFailure(c candidate, _ look) []Hold {
	if w.rollout.State != operation.FailedState || c.marked && w.attempts(c.m, c.to) > 0 {
		return nil
	}
	return []Hold{hold(HoldRolloutFailed, "the rollout failed (%s); write a corrected spec, go back: cadre rollout undo %s, or let it go on: cadre rollout retry %s", w.rollout.Reason, w.spec.Name, w.spec.Name)}
}

// holdsOfType: OPPORTUNISTIC moves a Slot only when something else touches it.
func (w *world) holdsOfType(c candidate, _ look) []Hold {
	if w.spec.UpdatePolicy.Type != group.Opportunistic || c.marked || c.class == ClassBroken {
		return nil
	}
	return []Hold{hold(HoldOpportunistic, "updates are OPPORTUNISTIC; to update this slot: cadre instance update %s", c.m.slot)}
}

// holdsOfUndecided: while nobody knows what a call did, no other is made (R66).
func (w *world) holdsOfUndecided(c candidate, _ look) []Hold {
	other := otherThan(c.m, w.tally.undecided)
	if other == nil {
		return nil
	}
	return []Hold{hold(HoldCallUndecided, "the platform call for %s is not decided yet", other.slot)}
}

// undecided: a call may have reached the platform and nobody knows (R66).
func (w *world) undecided(op *operation.Operation) bool {
	if op == nil || op.Phase != operation.Acting {
		return false
	}
	if op.Call.InVain() || op.Call.Outcome == operation.OutcomeDone {
		return false
	}
	return op.Call.Outcome == operation.OutcomeUnknown || w.now.Sub(op.Call.IssuedAt) > w.t.MaxCallTimeout
}

// holdsOfBinding are those about which CVM would be touched.
func (w *world) holdsOfBinding(c candidate, _ look) []Hold {
	m, i := c.m, c.m.seen.Instance
	var holds []Hold
	if n := len(m.seen.Duplicates); n > 0 {
		holds = append(holds, hold(HoldDuplicate, "%d CVMs carry the name of %s; remove the wrong ones on the platform", n+1, m.slot))
	}
	switch {
	case m.unadopted() && (w.appID == "" || i.AppID == "" || i.AppID == w.appID):
		holds = append(holds, hold(HoldUnadopted, "CVM %s carries the name of %s and no record binds it; to bind what it attests: cadre group adopt %s",
			i.VMUUID, m.slot, w.spec.Name))
	case m.vanished() && c.kind == operation.Create:
		holds = append(holds, w.holdOfGone(m))
	case c.kind == operation.Replace && c.actor == operation.ActorScaling:
		holds = append(holds, hold(HoldOutOfSet,
			"%s was taken out of its workload's set, and does not come back with what is on its disk; to have it made anew: cadre instance replace %s", m.slot, m.slot))
	case i != nil && m.record.VMUUID != i.VMUUID,
		i != nil && m.record.InstanceID != "" && i.InstanceID != "" && m.record.InstanceID != i.InstanceID:
		holds = append(holds, hold(HoldReplaced, "the platform shows CVM %s under the name of %s, which is bound to %s",
			i.VMUUID, m.slot, cmp.Or(m.record.VMUUID, "none of this app")))
	}
	return holds
}

// holdOfGone: a CVM is gone with its disk. Where healing is about to have another one made nobody needs to.
func (w *world) holdOfGone(m *member) Hold {
	gone := fmt.Sprintf("the CVM of %s (%s) is gone from the platform, and its disk with it", m.slot, cmp.Or(m.record.VMUUID, m.record.InstanceID))
	// An agent that was heard a moment ago only keeps the ailment from being certain yet.
	if a, ill := w.ails(m); (ill || a.gone && w.spec.HealsOn(a.on)) && a.at.After(w.now) {
		if r, ok := w.rungFor(m, a); ok && !w.spent(m, r) {
			return holdUntil(a.at, HoldHealDeferred, "%s; healing has a new one made in %s unless it comes back by itself", gone, short(a.at.Sub(w.now)))
		}
	}
	return hold(HoldInstanceMissing, "%s; to have a new one made: cadre instance replace %s", gone, m.slot)
}

// holdsOfPlatform waits for what the platform does to the CVM: a call now would be
// refused, and a CVM that terminates comes to its end.
func (w *world) holdsOfPlatform(c candidate, _ look) []Hold {
	m := c.m
	if !w.platformWorks(m) || m.open != nil {
		return nil
	}
	return []Hold{holdUntil(w.worksUntil(m), HoldPlatformBusy, "the platform is busy with the CVM of %s (%s)", m.slot, cmp.Or(m.seen.Instance.Status, "in progress"))}
}

// platformWorks: the platform is busy with m's CVM, and that is waited for.
func (w *world) platformWorks(m *member) bool {
	i := m.seen.Instance
	return i != nil && i.InProgress && w.now.Before(w.worksUntil(m))
}

// worksUntil is when m has been away for as long as a boot may take: a task of the platform that still goes on is a
// boot that failed, and would hold its Slot without an end.
func (w *world) worksUntil(m *member) time.Time {
	return m.record.UnavailableSince.Add(group.HealthyDeadline(w.spec))
}

// holdsOfCreate: creations follow the management policy.
func (w *world) holdsOfCreate(c candidate, l look) []Hold {
	var holds []Hold
	// None of those that found a set is available before a majority of them runs.
	if w.spec.ManagementPolicy != group.Parallel && !w.founds(c.m) {
		if before := w.predecessor(c.m, l.taken); before != nil {
			holds = append(holds, hold(HoldPredecessor, "waits for %s: %s", before.slot, w.whyNot(before)))
		}
	}
	if w.appID == "" && (len(l.taken.creates) > 0 || otherThan(c.m, w.tally.creating) != nil) {
		holds = append(holds, hold(HoldAppID, "the first CVM of the group allots the app id; the others follow"))
	}
	return holds
}

// predecessor is the first Slot before m that is not available, or taken in this pass. An extra Slot waits for none:
// the others may wait for it.
func (w *world) predecessor(m *member, t *taken) *member {
	if m.extra {
		return nil
	}
	first := otherThan(m, w.tally.notAvailable)
	if len(t.order) > 0 && (first == nil || t.order[0].ordinal < first.ordinal) {
		first = t.order[0]
	}
	if first != nil && first.ordinal < m.ordinal && !first.condemned {
		return first
	}
	return nil
}

// holdsOfDisk: no disk goes that somebody may want. One that was given up when its member was told to
// leave is not wanted back once that is out: who wants the Slot again gets another one.
func (w *world) holdsOfDisk(c candidate, _ look) []Hold {
	slot := c.m.slot
	if w.ending() {
		return nil // asked for with --delete-disks, by the name of the group
	}
	if c.m.record.Extra {
		return nil // made for the time of a rollout: its disk is nobody's
	}
	var holds []Hold
	if disk := w.spec.PreservedDisk(c.m.ordinal); disk != "" {
		return append(holds, hold(HoldPreservedState,
			"removing %s would delete its disk %q, which the spec preserves; remove preserved_state to allow it, or raise replicas to keep the slot", slot, disk))
	}
	if !c.left && !w.givenUpDisk(slot) {
		holds = append(holds, hold(HoldDeleteDisks,
			"removing %s deletes its disk; give it up with --delete-disks, or raise replicas to keep the slot", slot))
	}
	return holds
}

// givenUpDisk: somebody gave the disk of the Slot up.
func (w *world) givenUpDisk(slot string) bool {
	return w.found.givenUp.of(func() map[string]bool {
		all := make(map[string]bool, len(w.obs.DeleteDisks))
		for _, given := range w.obs.DeleteDisks {
			all[given] = true
		}
		return all
	})[slot]
}

// holdsOfScaleIn: of several the highest goes first, one at a time, while every other member is available, however
// long its drain took. A member that is out of its set, or never got its vote, takes nothing with it: as long as it
// is in the set, those that are not available may wait for it (R104).
func (w *world) holdsOfScaleIn(c candidate, l look) []Hold {
	if w.ending() || w.voteless(c.m) {
		return nil
	}
	var holds []Hold
	if first := w.firstCondemned(); first != nil && first != c.m && l.op == nil {
		holds = append(holds, hold(HoldScaleInOrder, "waits for the removal of %s", first.slot))
	}
	_, blocking := w.waitedFor(c, w.tally.notAvailable)
	if blocking == nil && len(l.taken.order) > 0 && !l.taken.order[0].condemned {
		blocking = l.taken.order[0] // a step of this pass counts as begun, also that of a slot that is wanted again
	}
	if blocking != nil && !c.left {
		holds = append(holds, hold(HoldOthersUnavailable, "waits for %s: %s", blocking.slot, w.whyNot(blocking)))
	}
	return holds
}

// firstCondemned is the one that is removed first. What cannot go as long as an operator says
// nothing else keeps none of the others.
func (w *world) firstCondemned() *member {
	return w.found.condemned.of(func() *member {
		var first *member
		for _, m := range w.condemned {
			switch {
			case m.open != nil && m.open.Kind != operation.Drain:
				return m // what began goes on, also where a higher one is to go by now
			case m.seen.Instance == nil, m.keptByHand(), len(w.holdsOfDisk(candidate{m: m, kind: operation.Delete}, look{})) > 0:
			case first == nil, w.deadVoter(m) && !w.deadVoter(first) && w.mayGoNow(m):
				first = m
			}
		}
		return first
	})
}

// mayGoNow: nothing about m itself or its CVM holds its removal. One that waits goes before nobody.
func (w *world) mayGoNow(m *member) bool {
	c := w.removal(m)
	return len(w.holdsOfBinding(c, look{}))+len(w.holdsOfMember(c, look{}))+len(w.holdsOfPlatform(c, look{})) == 0
}

// deadVoter: m counts in its set, and its CVM does not run, or its agent says that it takes no part. It goes before
// those that are well (R48): without one of them the others may be too few to decide that it goes.
func (w *world) deadVoter(m *member) bool {
	return w.view.voting && slices.Contains(w.view.voters, m.slot) && (m.stopped() || m.report != nil && !w.view.healthy[m.slot])
}

// holdsOfMember are what the workload itself asks for.
func (w *world) holdsOfMember(c candidate, _ look) []Hold {
	m, r := c.m, c.m.report
	if c.service != "" && c.actor == operation.ActorOperator && !m.speaks {
		return []Hold{hold(HoldUnknownHealth, "%s is silent, and hears no order to restart service %s; ask for a restart of its CVM: cadre instance restart %s", m.slot, c.service, m.slot)}
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
	switch until := m.recoversUntil(); { // the noted lag, so that not every report changes the message
	case len(r.Busy) == 0:
	case m.inService():
		holds = append(holds, hold(HoldBusy, "%s is busy: %s", m.slot, r.Busy[0]))
	case r.LagBytes != nil && !m.ready && w.now.Before(until):
		holds = append(holds, holdUntil(until, HoldRecovering, "%s is recovering: %s, %d bytes behind; waited for until %s unless that falls", m.slot, r.Busy[0], m.record.Recovery.LagBytes, until.UTC().Format(time.TimeOnly)))
	}
	return holds
}

// holdsOfMute: a workload that gives no answer is not touched while that may pass. Nor does a rollout touch it while
// no member says who leads, since this one may.
func (w *world) holdsOfMute(c candidate) []Hold {
	m := c.m
	if !w.unanswered(m) || c.refresh || c.kind == operation.Delete || m.open != nil {
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

func (w *world) holdOfSilence(m *member) Hold {
	until := w.lostAt(m)
	return holdUntil(until, HoldUnknownHealth, "%s is silent; it counts as lost at %s", m.slot, until.UTC().Format(time.TimeOnly))
}

// holdsOfDriver asks the workload whether m may be stopped. A fix of one that does not
// serve is not gated; for a healthy one unknown is no (R52).
func (w *world) holdsOfDriver(c candidate, l look) []Hold {
	m, r := c.m, c.m.report
	if !m.ready || m.open != nil && l.op == nil {
		return nil
	}
	if r == nil || r.MayDisrupt || !group.HasDriver(w.spec) && r.MayDisruptReason == "" {
		return nil
	}
	return []Hold{hold(HoldMayDisrupt, "%s must not be stopped now: %s", m.slot, cmp.Or(r.MayDisruptReason, "its driver does not say that it may"))}
}

// holdsOfFailedSteps is R40: no further healthy Slot is spent while one whose step
// failed is not back.
func (w *world) holdsOfFailedSteps(c candidate, _ look) []Hold {
	if c.marked && c.condition == lost {
		return nil // an operator who names a silent Slot has looked
	}
	if c.kind == operation.Delete && w.voteless(c.m) {
		return nil // the other one may wait for just that
	}
	_, m := w.waitedFor(c, w.tally.failedBack)
	if m == nil {
		return nil
	}
	return []Hold{hold(HoldFailedStep, "the step of %s failed (%s) and it is not available again", m.slot, m.last().Reason)}
}
