package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
)

const (
	// maxAborts is how often a Slot's steps may be called off before the rollout fails (R80).
	maxAborts = 3
	// keptFailures bounds the list of failed Revisions.
	keptFailures = 16
)

// trackRollout updates the rollout record. A new target starts a new rollout and supersedes the old. Work on an ended
// rollout opens it again. The state follows from the observation. An incomplete observation leaves the verdict
// unchanged (R11).
func (w *world) trackRollout() {
	w.noteFailedRevisions()
	w.startRollout()
	r := w.rollout
	r.Generation = w.generation
	if r.Goal() != w.target {
		w.setState(operation.FailedState, fmt.Sprintf("the content of revision %.8s, to which the rollout goes back, is not recorded any more; apply a spec", r.Goal()))
		return
	}
	*w.transfers() = w.transfersMade()
	if w.retry != nil && r.RetryRequest != w.retry.ID {
		// A refused call is tried again, regardless of the rollout's state after the refusal.
		w.forgive()
		r.RetriedBy, r.RetryRequest = w.retry.By, w.retry.ID
		if r.State == operation.RolledBack {
			r.Back.Over = true
		}
		if r.State.Failed() {
			goOn(r, "an operator lets it go on: "+cmp.Or(w.retry.Reason, "no reason given"), r.Forgiven, w.now)
		}
	}
	if !w.obs.Complete() || w.ending() || r.Goal() != w.target {
		return
	}
	w.noteArrivals()
	done, doing := w.arrived(), w.workLeft()
	excluded, why := w.leftBehind()
	policy := w.spec.UpdatePolicy
	bakes := policy.Bake != 0 && w.staged() && excluded == "" && policy.Partition == 0
	switch {
	case r.State == operation.FailedState && r.Verdict != nil && r.Verdict.Cause == operation.CauseBake:
		// A Slot that recovers takes nothing back: the revision failed after its arrival (I6).
	case bakes && !w.groupStopped() && w.stoppedBy() == "" && (done || r.State == operation.BakingState && !doing):
		w.bakeAll(done)
	case done && !bakes:
		w.end(excluded, why)
	case !doing && reached(r.State):
		// A Slot that was lost after its arrival is no failure of the rollout (R90).
	case r.State == operation.FailedState:
		// The verdict stands until an operator decides (I6). An automatic event, such as a creation or a returning Slot,
		// does not remove it.
	case w.groupStopped():
		if r.PausedAt.IsZero() {
			r.PausedAt = w.now // the progress clock restarts with the group
		}
		r.BakeSince = time.Time{}
	case w.stoppedBy() != "":
		w.setState(operation.PausedState, w.stoppedBy())
	default:
		w.keepStages()
		w.keepProgressClock()
		if v := w.evidence(); v != nil {
			w.fail(v)
		} else {
			w.setState(r.Onward(), cmp.Or(w.evidenceText(), w.stageText()))
		}
	}
}

// end ends the rollout, whose Slots are where it moved them. The spec or a tolerated failure left the excluded ones.
func (w *world) end(excluded, why string) {
	switch partition := w.spec.UpdatePolicy.Partition; {
	case w.target != w.asked:
		w.rollout.Back.Done = true
		w.setState(operation.RolledBack, w.rolledBackText(excluded, why))
	case partition > 0 && len(w.tolerated()) == 0:
		w.setState(operation.PartitionReached, fmt.Sprintf("every slot from ordinal %d on is at the target", partition))
	case why != "":
		w.setState(operation.PartitionReached, fmt.Sprintf("every slot but %s is at the target: %s", excluded, why))
	default:
		w.complete("every slot is at the target and available")
	}
}

// leftBehind returns the Slots that the spec's instance blocks or an override keep from the target, and the Slots
// whose failure is tolerated. The rollout is complete only with them (R100, R139). why names the reason, or is empty
// if no Slot is left behind; for a single Slot it has all details.
func (w *world) leftBehind() (slots, why string) {
	var left, by []string
	for _, m := range w.members {
		kept := w.keptBy(m.ordinal)
		switch failed := w.tolerates(m); {
		case failed && !m.extra:
			kept, why = "max_failed", "max_failed tolerates that its step failed: "+w.evidenceOf(m).Reason
		case failed, kept == "", kept == group.KeptByPartition, m.observed == w.target:
			continue
		case kept == group.KeptByOverride:
			why = w.excludedText(m)
		default:
			why = kept + " keeps it back"
		}
		left = append(left, m.slot)
		if !slices.Contains(by, kept) {
			by = append(by, kept)
		}
	}
	if len(left) > 1 {
		why = strings.Join(by, " and ") + " " + pick(len(by) == 1, "keeps", "keep") + " them back"
	}
	return names.Few(left, ", "), why
}

// startRollout continues the recorded rollout, or begins one for a new target (R5, R105).
func (w *world) startRollout() {
	old := w.rec.Rollout
	if old != nil && w.goesOn(old) {
		r := *old
		if r.Back != nil {
			back := *r.Back // other passes read the record as well
			r.Back = &back
		}
		w.rollout = &r
		return
	}
	if old != nil && !ended(old.State) {
		was := *old
		was.State, was.Reason, was.EndedAt = operation.SupersededState, "a newer spec replaced it", w.now
		w.superseded = &was
	}
	w.rollout = &operation.Rollout{
		ID:         fmt.Sprintf("%s-%d-%.8s", w.spec.Name, w.generation, w.asked),
		Group:      w.spec.Name,
		Generation: w.generation,
		From:       w.stable,
		To:         w.asked,
		State:      operation.Running,
		StartedAt:  w.now,
		ProgressAt: w.now,
		By:         w.rec.AppliedBy,
		Request:    w.rec.AppliedRequest,
	}
	for _, m := range w.everyone {
		m.past, m.lastOrder = nil, 0 // steps of another rollout are no evidence about this one
	}
	w.retally()
}

// noteArrivals restarts the progress clock when a Slot became available at the
// target (R88).
func (w *world) noteArrivals() {
	for _, m := range w.members {
		if m.available && m.observed == w.target && m.wasAvailableAt != w.target {
			w.rollout.ProgressAt = w.now
		}
		for i := range m.past {
			op := &m.past[i]
			if op.Phase == operation.Done && op.To == w.target && op.Times.Ended.After(w.rollout.ProgressAt) && !op.Times.Ended.After(w.now) {
				w.rollout.ProgressAt = op.Times.Ended
			}
		}
	}
}

// arrived: every Slot in scope proved the target and is available (R6).
func (w *world) arrived() bool {
	for _, m := range w.members {
		if m.extra || w.tolerates(m) {
			continue
		}
		if m.inScope() && (!m.available || w.outdated(m)) {
			return false
		}
		if m.missing() || m.open != nil && m.open.Kind == operation.Create {
			return false
		}
	}
	return true
}

// workLeft: a Slot in scope is missing or has another Revision than the target.
func (w *world) workLeft() bool {
	return slices.ContainsFunc(w.members, func(m *member) bool {
		// A Slot that gets another CVM existed before and returns, so it is no work of the rollout.
		replaced := m.open != nil && m.open.Kind == operation.Replace
		return !replaced && !m.extra && !w.tolerates(m) && (w.outdated(m) || m.missing())
	})
}

// evidence returns why the rollout failed; nil if it did not (R39, R88, R89, R99). The verdict is recorded and stands
// from then on.
func (w *world) evidence() *operation.Verdict {
	if v := w.bakeEvidence(); v != nil {
		return v
	}
	v := w.firstVerdict(func(m *member) *operation.Verdict {
		v := w.evidenceOf(m)
		if v == nil || w.tolerates(m) {
			return nil
		}
		v.Slot = m.slot
		return v
	})
	if v != nil {
		return v
	}
	limit := group.ProgressDeadline(w.spec)
	if since := w.progressSince(); !w.waitsForPeople() && w.now.Sub(since) >= limit {
		return &operation.Verdict{Cause: operation.CauseProgress, Reason: fmt.Sprintf("progress_deadline: no slot arrived for %s%s", limit, w.refusedLast())}
	}
	return nil
}

// refusedLast returns the platform's last message for a Slot that still waits after a refusal.
func (w *world) refusedLast() string {
	for _, m := range w.members {
		if last := m.last(); m.open == nil && last != nil && last.Phase == operation.Failed && last.Failure.Cause == operation.CauseRefused {
			return "; " + m.slot + ": " + last.Reason
		}
	}
	return ""
}

// progressSince returns the time of the rollout's last progress: an arrival, a resume, a platform refusal, or the end
// of an awaited hook.
func (w *world) progressSince() time.Time {
	since := w.rollout.ProgressAt
	if until := w.tally.delayedUntil; until.After(since) {
		since = until // the spec's own pause is not the rollout's time
	}
	for _, m := range w.members {
		if last := m.last(); last != nil && last.Failure.Cause == operation.CauseRefused && last.Times.Ended.After(since) && !last.Times.Ended.After(w.now) {
			since = last.Times.Ended // the time of platform refusals does not count (R74), for any number of retries
		}
		if m.open == nil || m.open.Kind == operation.Drain {
			continue // an operator's drain is no step of the rollout
		}
		if at := m.open.Entered[operation.Drained]; at.After(since) {
			since = at
		}
	}
	return since
}

// noteFailedRevisions records which Revisions a Slot failed at without ever being available there (R90). A platform
// refusal is no verdict about a Revision (R74).
func (w *world) noteFailedRevisions() {
	w.failedRevs = slices.Clone(w.rec.Status.FailedRevisions)
	if r := w.rec.Rollout; w.target != w.asked && !slices.Contains(w.failedRevs, r.To) {
		w.failedRevs = append(w.failedRevs, r.To) // it was available before it failed
	}
	for _, m := range w.members {
		for _, op := range m.past {
			blamed := op.Failure.Cause == operation.CauseBootError || op.Failure.Cause == operation.CauseDeadline || op.Failure.Cause == operation.CausePostLaunch
			if op.Phase != operation.Failed || !blamed || op.Kind == operation.Restart || m.record.WasAvailableAt == op.To {
				continue
			}
			if !slices.Contains(w.failedRevs, op.To) {
				w.failedRevs = append(w.failedRevs, op.To)
			}
		}
	}
	if n := len(w.failedRevs); n > keptFailures {
		w.failedRevs = w.failedRevs[n-keptFailures:]
	}
}
