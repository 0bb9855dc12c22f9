package rollout

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

const (
	// maxAborts is how often a Slot may be called off before that is a failure (R80).
	maxAborts = 3
	// keptFailures bounds the list of failed Revisions.
	keptFailures = 16
)

// trackRollout brings the rollout record up to date: a new target starts a new one
// and supersedes the old, work on an ended one opens it again, and the state
// follows from what is seen. A pass that could not look at everything changes no
// verdict (R11).
func (w *world) trackRollout() {
	w.noteFailedRevisions()
	w.startRollout()
	r := w.rollout
	r.Generation, r.Transfers = w.generation, w.transfersMade()
	if !w.obs.Complete {
		return
	}
	w.noteArrivals()
	done, doing := w.arrived(), w.workLeft()
	switch {
	case done && w.spec.UpdatePolicy.Partition > 0:
		w.setState(operation.PartitionReached, fmt.Sprintf("every slot from ordinal %d on is at the target", w.spec.UpdatePolicy.Partition))
	case done:
		w.setState(operation.Complete, "every slot is at the target and available")
		w.stable = w.target
		w.failedRevs = slices.DeleteFunc(w.failedRevs, func(rev string) bool { return rev == w.target })
	case !doing && (r.State == operation.Complete || r.State == operation.PartitionReached):
		// A Slot that was lost later is no failure of the rollout (R90).
	case w.obs.Paused || w.obs.Frozen:
		w.setState(operation.PausedState, "paused by an operator")
	default:
		w.resume()
		if evidence := w.evidence(); evidence != "" {
			w.setState(operation.FailedState, evidence)
		} else {
			w.setState(operation.Running, "")
		}
	}
}

// startRollout takes the record over or begins one for a new target (R5, R105).
func (w *world) startRollout() {
	old := w.rec.Rollout
	if old != nil && old.To == w.target {
		r := *old
		w.rollout = &r
		return
	}
	if old != nil && !ended(old.State) {
		was := *old
		was.State, was.Reason, was.EndedAt = operation.SupersededState, "a newer spec replaced it", w.now
		w.superseded = &was
	}
	w.rollout = &operation.Rollout{
		ID:         fmt.Sprintf("%s-%d-%.8s", w.spec.Name, w.generation, w.target),
		Group:      w.spec.Name,
		Generation: w.generation,
		From:       w.stable,
		To:         w.target,
		State:      operation.Running,
		StartedAt:  w.now,
		ProgressAt: w.now,
	}
	for _, m := range w.all() {
		m.past = nil // steps of another rollout are no evidence about this one
	}
}

func ended(s operation.RolloutState) bool {
	switch s {
	case operation.Complete, operation.PartitionReached, operation.FailedState, operation.SupersededState:
		return true
	case operation.Running, operation.PausedState:
	}
	return false
}

func (w *world) setState(s operation.RolloutState, reason string) {
	r := w.rollout
	if r.State != s {
		r.EndedAt = time.Time{}
		if ended(s) {
			r.EndedAt = w.now
		}
	}
	if s == operation.PausedState && r.PausedAt.IsZero() {
		r.PausedAt = w.now
	}
	r.State, r.Reason = s, reason
}

// resume restarts the progress clock after a pause (R88, R93).
func (w *world) resume() {
	if !w.rollout.PausedAt.IsZero() {
		w.rollout.PausedAt, w.rollout.ProgressAt = time.Time{}, w.now
	}
}

// noteArrivals restarts the progress clock when a Slot became available at the
// target (R88).
func (w *world) noteArrivals() {
	before := make(map[string]string)
	for _, r := range w.rec.Slots {
		before[r.Slot] = r.WasAvailableAt
	}
	for _, m := range w.members {
		if m.available && m.observed == w.target && before[m.slot] != w.target {
			w.rollout.ProgressAt = w.now
		}
		for _, op := range m.past {
			if op.Phase == operation.Done && op.To == w.target && op.EndedAt.After(w.rollout.ProgressAt) {
				w.rollout.ProgressAt = op.EndedAt
			}
		}
	}
}

// arrived: every Slot in scope proved the target and is available (R6).
func (w *world) arrived() bool {
	for _, m := range w.members {
		if w.inScope(m) && (!m.available || w.outdated(m)) {
			return false
		}
		if m.missing() || m.open != nil && m.open.Kind == operation.Create {
			return false
		}
	}
	return true
}

// workLeft: a Slot in scope is not at the target, or does not exist yet.
func (w *world) workLeft() bool {
	return slices.ContainsFunc(w.members, func(m *member) bool { return w.outdated(m) || m.missing() })
}

// evidence is why the rollout failed; empty while it has not (R39, R88, R89, R99).
// It is derived anew each pass: a Slot that arrives late, or an operator's new
// attempt at it, takes its evidence away (R40).
func (w *world) evidence() string {
	for _, m := range w.members {
		if reason := w.evidenceOf(m); reason != "" {
			return fmt.Sprintf("%s: %s", m.slot, reason)
		}
	}
	limit := group.ProgressDeadline(w.spec)
	if since := w.progressSince(); !w.waitsForPeople() && w.now.Sub(since) >= limit {
		return fmt.Sprintf("progress_deadline: no slot arrived for %s", limit)
	}
	return ""
}

func (w *world) evidenceOf(m *member) string {
	if m.open != nil {
		if op := m.open; op.Phase == operation.Acting && w.undecided(op) && w.now.Sub(op.CallIssuedAt) >= w.t.UnknownDeadline {
			return "platform_result_unknown: the call is undecided since " + op.CallIssuedAt.UTC().Format(time.RFC3339)
		}
		return ""
	}
	if m.available && m.observed == w.target || !w.inScope(m) {
		return ""
	}
	if last := m.last(); last != nil && last.Phase == operation.Failed && last.To == w.target {
		return orWord(last.Reason, "its step failed")
	}
	if n := w.aborts(m); n >= maxAborts {
		return fmt.Sprintf("called off %d times: %s", n, m.last().Reason)
	}
	if i := m.seen.Instance; i != nil && i.BootError != "" && !i.InProgress && !w.outdated(m) && m.record.WasAvailableAt != w.target {
		return "never available at the target: " + i.BootError
	}
	return ""
}

// progressSince is when the rollout last got ahead: an arrival, a resume, or the
// end of a hook that was waited for.
func (w *world) progressSince() time.Time {
	since := w.rollout.ProgressAt
	for _, m := range w.members {
		if m.open == nil {
			continue
		}
		if at := m.open.Entered[operation.Drained]; at.After(since) {
			since = at
		}
	}
	return since
}

// waitsForPeople: time that a person (who approves, too) or a heartbeating hook takes
// is not the rollout's; the hook's absolute cap ends that (R88).
func (w *world) waitsForPeople() bool {
	if w.spec.UpdatePolicy.Type == group.Opportunistic || !w.gate(w.target).Allowed {
		return true
	}
	return slices.ContainsFunc(w.members, func(m *member) bool {
		if m.open == nil || m.open.Phase != operation.Draining || m.report == nil {
			return false
		}
		return slices.ContainsFunc(m.report.Steps, func(s StepReport) bool {
			return s.Operation == m.open.ID && s.Verb == VerbDrain && (s.State == StepRunning || s.State == StepHeld)
		})
	})
}

// noteFailedRevisions keeps which Revisions a Slot failed at without ever being
// available there (R90). What the platform refused is no verdict about them (R74).
func (w *world) noteFailedRevisions() {
	w.failedRevs = slices.Clone(w.rec.Status.FailedRevisions)
	for _, m := range w.members {
		for _, op := range m.past {
			blamed := op.Cause == operation.CauseBootError || op.Cause == operation.CauseDeadline || op.Cause == operation.CausePostLaunch
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
