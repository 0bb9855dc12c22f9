package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// message describes in one line the current step or the awaited condition, and for how long (R138). The order is: a
// failure, the step in progress, the first held candidate, the reason of an idle pass.
func (w *world) message(actions []Action) string {
	r := w.rollout
	if r.State == operation.FailedState {
		return "failed: " + r.Reason
	}
	for _, a := range actions {
		if a.Operation != "" && !w.find(a.Slot).rests() {
			return w.stepMessage(w.find(a.Slot))
		}
	}
	if w.groupStopped() && !slices.ContainsFunc(w.everyone, w.toStop) {
		return "the group is stopped by its spec; to start it: stopped = false"
	}
	for _, a := range actions {
		if a.Execute && a.Operation == "" {
			return fmt.Sprintf("begins %s of %s", a.Kind, a.Slot)
		}
	}
	if i := slices.IndexFunc(actions, func(a Action) bool { return len(a.Holds) > 0 }); i >= 0 {
		a := actions[i]
		since := ""
		if !r.WaitsSince.IsZero() && a.Actor == operation.ActorRollout {
			since = "; the rollout waits since " + r.WaitsSince.UTC().Format(time.RFC3339)
		}
		return fmt.Sprintf("%s of %s waits: %s: %s%s", a.Kind, a.Slot, a.Holds[0].Predicate, a.Holds[0].Message, since)
	}
	if w.ending() {
		return "the group is being deleted"
	}
	if r.State == operation.BakingState {
		return r.Reason
	}
	if text := w.setText(); text != "" {
		return text
	}
	for _, m := range w.members {
		if !m.available {
			return fmt.Sprintf("waits for %s: %s", m.slot, m.whyNot())
		}
	}
	if r.State == operation.RolledBack {
		return r.Reason
	}
	there := where(w.members, func(m *member) bool { return !m.extra && m.available && m.observed == w.target })
	return fmt.Sprintf("%d of %d slots available at %.8s", len(there), w.spec.Replicas, w.target)
}

// stepMessage explains a step in progress.
func (w *world) stepMessage(m *member) string {
	op := m.open
	switch op.Phase {
	case operation.Settling:
		if left := group.MinReady(w.spec) - w.now.Sub(op.Seen.AvailableSince); left > 0 {
			return fmt.Sprintf("waits for %s: min_ready, %s left", m.slot, short(left))
		}
		return fmt.Sprintf("waits for %s: arrives", m.slot)
	case operation.Joining:
		return fmt.Sprintf("waits for %s: %s", m.slot, cmp.Or(m.reason, op.Reason))
	case operation.Draining, operation.Drained, operation.Acting, operation.Booting,
		operation.Done, operation.Aborted, operation.Failed, "":
	}
	return fmt.Sprintf("waits for %s: %s: %s", m.slot, m.stepWord(), cmp.Or(op.Reason, m.reason))
}

// wake returns the next time at which time alone changes the decision. At that time a clock of R8 runs out, a
// deadline passes, a report becomes stale, or a hold ends. clock is that time without the reports.
func (w *world) wake(actions []Action) (at, clock time.Time) {
	earlier := func(at *time.Time, t time.Time) {
		if t.After(w.now) && (at.IsZero() || t.Before(*at)) {
			*at = t
		}
	}
	sooner := func(t time.Time) { earlier(&clock, t) }
	var stale time.Time
	for _, a := range actions {
		for _, h := range a.Holds {
			sooner(h.Until)
		}
	}
	minReady := group.MinReady(w.spec)
	ends := func(overrides []**Override) {
		for _, override := range overrides {
			if *override != nil {
				sooner((*override).Until)
			}
		}
	}
	ends(w.obs.overrides())
	for _, setting := range w.obs.Gates {
		sooner(setting.Until)
	}
	for _, o := range w.obs.HoldOverrides {
		sooner(o.Until)
	}
	for _, m := range w.everyone {
		if m.ready {
			sooner(m.record.AvailableSince.Add(minReady))
			sooner(w.now.Add(w.flapLeft(m)))
		}
		if m.report != nil {
			if m.certainlyDown() {
				sooner(m.report.ReceivedAt.Add(operation.LiveWithin)) // from then on the platform's listing counts
			}
			earlier(&stale, m.report.ReceivedAt.Add(w.t.StaleAfter+time.Millisecond))
		} else {
			sooner(w.lostAt(m))
		}
		if m.report != nil && m.record.Membership.Waits() {
			sooner(m.waitsFrom())
		}
		if m.terminating && m.vanished() {
			sooner(m.record.MissedSince.Add(goneFor)) // then the planner forgets the Slot
		}
		ends(m.seen.overrides())
		if w.spec.AutoHealing != nil {
			sooner(w.backUntil(m))
		}
		if a, faulty := w.faultOf(m); faulty {
			sooner(a.at)
		}
		if m.open != nil {
			w.wakeForStep(m.open, minReady, sooner)
		}
	}
	w.wakeForBake(sooner)
	if w.rollout.State.Moves() && w.workLeft() && !w.waitsForPeople() {
		sooner(w.progressSince().Add(group.ProgressDeadline(w.spec)))
	}
	at = clock
	earlier(&at, stale)
	return at, clock
}

func (w *world) wakeForStep(op *operation.Operation, minReady time.Duration, sooner func(time.Time)) {
	switch op.Phase {
	case operation.Draining, operation.Drained, "":
		sooner(op.Times.DrainBy)
	case operation.Acting:
		sooner(op.Call.IssuedAt.Add(w.t.MaxCallTimeout))
		sooner(op.Call.IssuedAt.Add(w.t.Settle))
		sooner(op.Call.IssuedAt.Add(w.t.UnknownDeadline))
	case operation.Settling:
		sooner(op.Seen.AvailableSince.Add(minReady))
		sooner(op.Times.HealthyBy)
	case operation.Booting, operation.Joining:
		sooner(op.Times.HealthyBy)
	case operation.Done, operation.Aborted, operation.Failed:
	}
}
