package rollout

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// newImages returns the images that a compose text names and the earlier text did not, each once.
func newImages(before, text string) (names []string) {
	if before == text {
		return nil
	}
	known, _ := group.ComposeImages(before)
	wanted, _ := group.ComposeImages(text)
	for _, i := range wanted {
		if !slices.ContainsFunc(known, func(k group.ServiceImage) bool { return k.Image == i.Image }) && !slices.Contains(names, i.Image) {
			names = append(names, i.Image)
		}
	}
	return names
}

// drainLimit is the maximum duration of a step away from a Revision before the step acts. It is the time for the
// hooks and the leadership transfer of the step.
func (w *world) drainLimit(way operation.Way, from string) time.Duration {
	if way.Refreshes() {
		return group.RefreshAllowance
	}
	return group.DrainDeadline(w.specAt(from))
}

// awaitsQuorum reports that m runs, by the platform's listing too, and that its set has no majority of voters yet.
// The step of another member makes m ready, so that m's step must not wait for readiness.
func (w *world) awaitsQuorum(m *member) bool {
	// If a step ended for a member that stopped right after its last report, no step would repair that member.
	return m.seen.Instance.Running() && m.report != nil && m.report.alive() && w.view.voting && w.view.leader == "" && w.quorumLost() && len(w.members) > 1
}

// unjudged returns why m's health does not yet cover the checks of a Revision. It is empty when it does, or when
// the agent is too old to report that.
func (m *member) unjudged(revision string) string {
	switch r := m.report; {
	case r == nil:
		return ""
	case r.AgentSpec != "" && r.AgentSpec != revision:
		return "its agent does not go by the revision's hooks and checks yet"
	case len(r.Pending) > 0:
		return "check " + r.Pending[0] + " was not judged yet"
	}
	return ""
}

// specAt is the spec with the agent spec of a Revision. The Boot that runs the Revision uses that agent spec, even
// after a change of the spec. Without a record of the Revision, the current spec applies.
func (w *world) specAt(revision string) group.Spec {
	if r, ok := w.rec.Revisions[revision]; ok && revision != w.target {
		return w.spec.With(r.AgentSpec)
	}
	return w.spec
}

// addSeen copies the observation of m into f.
func (w *world) addSeen(f *operation.Facts, m *member) {
	f.PlatformKnown, f.Unlisted = w.platformKnown(m), w.silentNode(m)
	f.NotOn, f.Duplicates = w.notOn(m), len(m.seen.Duplicates)
	if i := m.seen.Instance; i != nil {
		f.Platform = &operation.PlatformView{
			VMUUID: i.VMUUID, InstanceID: i.InstanceID, Running: i.Running(), InProgress: i.InProgress, Stuck: i.InProgress && !w.platformWorks(m), Stopped: w.staysDown(i),
			ComposeHash: i.ComposeHash, Shape: i.Shape, BootError: i.BootError, UpdatedAt: i.UpdatedAt,
			Unbound: m.unmanaged(),
			Former:  m.former(i) || m.bound(i) && m.open != nil && m.open.Kind == operation.Replace && m.open.CVM.VMUUID == "" && !m.open.MadeWay(),
		}
	}
	if a := m.seen.Admission; a != nil {
		f.Admission = &operation.AdmissionView{BootID: a.BootID, Revision: a.Revision, InstanceID: a.InstanceID}
	}
	if r := m.seen.Refusal; r != nil {
		told := refusalView(r)
		f.Refusal = &told
	}
	if r := m.seen.Report; r != nil {
		f.LastReportOf, f.LastReportAt = r.BootID, r.ReceivedAt
	}
	if m.report != nil {
		f.Steps = m.report.Steps
		f.NotServing = m.report.Health == Unhealthy || group.HasDriver(w.spec) && !m.report.MemberReady
	}
	f.Gone = m.report == nil && m.bootedElsewhere()
	if m.ready {
		f.ReadySince = m.record.AvailableSince
	}
	f.ReadyReason = m.reason
}

// staysDown reports that the CVM stays down until a call starts it. Where a CVM is stopped first, a process that ended
// without a stop is not enough: its host may start the CVM again, and takes no change before a stop.
func (w *world) staysDown(i *Instance) bool {
	return stoppedWord(i) && !i.InProgress && (i.Status == "stopped" || !w.t.StopFirst)
}

// unwanted returns why op should not act any more; empty while it should (R82, R105).
func (w *world) unwanted(m *member, op operation.Operation) string {
	if op.Kind == operation.Stop {
		return w.unstopped(m, op)
	}
	if marked := w.unwantedByHand(m, op); op.Kind == operation.Drain || marked != "" {
		return marked
	}
	switch {
	case op.Kind != operation.Delete && w.groupStopped():
		return groupStoppedText
	case op.Kind == operation.Delete && !m.terminating:
		return "the slot is wanted again"
	case op.Kind == operation.Delete:
		return w.outOfTurn(m) // the predicates cover the protection of its disk
	case m.terminating:
		return m.want.why
	case op.Way.SkipDrain && op.Kind != operation.Create && w.serves(m):
		return "the member came back and must be drained first: planned again"
	case op.Kind == operation.Replace && op.CVM.VMUUID == "" && !op.MadeWay() && m.isBack(op):
		return "the platform lists CVM " + m.seen.Instance.VMUUID + " of the slot, which was lost when its replacement was asked for: ask again to replace it"
	case op.Actor == operation.ActorHealing:
		return w.healed(m, op)
	case op.Kind == operation.Restart || op.Kind == operation.Replace && (op.Actor != operation.ActorRollout || op.MadeWay()):
		return ""
	case op.Kind == operation.Replace && w.spec.UpdatePolicy.MinimalAction != group.ActionReplace:
		return "update_policy.minimal_action does not replace members any more"
	case op.Kind == operation.Create && w.mayMakeAt(op.To):
		return ""
	case op.Kind.Rolls(op.Actor) && !w.outdated(m):
		return "the slot is not outdated any more"
	case op.To != m.want.revision:
		return fmt.Sprintf("the spec moved on to %.8s", m.want.revision)
	case op.Kind == operation.Update && op.Actor != operation.ActorOperator && w.exceeds(m):
		needed, _ := w.takes(m)
		return fmt.Sprintf("%s: it takes %s, and update_policy.most_disruptive_allowed_action is %s", HoldActionNotAllowed, needed, group.MostDisruptive(w.spec))
	case w.rollout.State == operation.FailedState && m.attempts(op.To) == 0 && op.Kind.Rolls(op.Actor):
		return "the rollout failed: " + w.rollout.Reason
	}
	return ""
}

// isBack reports that a later listing has the CVM that op was to replace because a listing lacked it. Before the
// call, any CVM with the Slot's name counts as that CVM.
func (m *member) isBack(op operation.Operation) bool {
	i := m.seen.Instance
	return i != nil && (op.Call.Part == "" || m.bound(i))
}

// serves reports that stopping m without a drain would interrupt service. A listing that lacks the CVM of a
// reporting agent may be the platform's mistake.
func (w *world) serves(m *member) bool {
	return m.ready || w.view.healthy[m.slot] || m.leads() || w.unlisted(m) && m.heardNow()
}

// downByHalf reports that the applied part of the change took m down, and that m does not serve yet. The other
// parts take no further member away. m has its place in the budget already. The other members may wait for m, for
// example for its vote.
func (w *world) downByHalf(m *member, op operation.Operation) bool {
	switch {
	case !op.Kind.InPlace() || len(op.Call.Applied) == 0:
		return false
	case op.Call.Has(operation.PartStop) && m.halted():
		return true
	}
	if !m.admitted() {
		return m.report != nil && !w.serves(m)
	}
	boot, ended := m.seen.Admission.BootID, w.endedByCall(m, op)
	// A member that was ready in its Boot may be ready still: an agent that has just restarted reports nothing yet.
	return ended || m.report != nil && !w.serves(m) && m.record.AvailableBoot != boot
}

// endedByCall reports that op's call was to end the admitted Boot, and that the Boot ended as far as is known.
func (w *world) endedByCall(m *member, op operation.Operation) bool {
	a := m.seen.Admission
	return a != nil && a.BootID == op.Before.BootID && !w.livesOn(m, op)
}

// livesOn reports that the Boot that op's last call was to end still lives. That Boot reported after the call, or
// at the time when the effect must have shown. A platform may show a change before it stops the CVM for it, or only
// record the change.
func (w *world) livesOn(m *member, op operation.Operation) bool {
	r := m.seen.Report
	if r == nil || r.BootID != op.Before.BootID {
		return false
	}
	return m.report != nil && r.ReceivedAt.After(op.Call.IssuedAt) || !r.ReceivedAt.Before(op.Call.IssuedAt.Add(w.t.Settle))
}

// outOfTurn returns why the removal of m is planned again; "": the removal continues. In a deletion, the removals
// of all members begin at once. After an operator takes the deletion back, the group may have to shrink in order
// (R109).
func (w *world) outOfTurn(m *member) string {
	if w.ending() || w.voteless(m) {
		return ""
	}
	for _, higher := range w.terminating {
		if higher == m {
			break
		}
		if higher.open != nil && higher.open.Kind == operation.Delete && !w.voteless(higher) {
			return "planned again: waits for the removal of " + higher.slot
		}
	}
	return ""
}

// unwantedByHand returns why op must not begin after an operator's override on m; empty if op may begin.
func (w *world) unwantedByHand(m *member, op operation.Operation) string {
	switch {
	case op.Kind == operation.Drain:
		return w.undrained(m)
	case w.ending():
		return ""
	case m.drained() && !m.repairsProtected(op.Kind, op.Actor):
		return "an operator wants it out of service" + m.seen.Drain.text()
	}
	if harmOf(op.Kind) < disruptive {
		return ""
	}
	return firstMessage(w.holdsOfProtection(m.again(op), evaluation{op: &op}))
}
