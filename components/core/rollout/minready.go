package rollout

import (
	"time"

	"cadre.dev/core/group"
)

// keepClock keeps the availability clock of R8 in the Slot's record. The clock starts when m becomes ready. It
// starts again after a setback, after another Boot, and after a gap that the report does not prove healthy. A pass
// with an incomplete observation leaves the clock alone.
func (w *world) keepClock(m *member) {
	rec := &m.record
	if !m.ready {
		if !w.platformKnown(m) {
			return
		}
		if r := m.seen.Report; r != nil && r.BootID == rec.AvailableBoot {
			w.forgetHeals(m, r.ReceivedAt) // the window may have ended after the last pass that saw m available
		}
		m.fell = !rec.AvailableSince.IsZero()
		rec.AvailableSince = time.Time{} // AvailableBoot stays: it ends the grace period of a Boot (R113)
		if rec.UnavailableSince.IsZero() || rec.UnavailableSince.After(w.now) {
			// A leader whose clock was ahead wrote a time in the future.
			rec.UnavailableSince = w.now
		}
		return
	}
	boot := m.seen.Admission.BootID
	m.dropFlap(boot)
	switch {
	case rec.AvailableSince.IsZero() || rec.AvailableBoot != "" && rec.AvailableBoot != boot:
		rec.AvailableSince = w.now
	case rec.AvailableSince.After(w.now) || !w.unbroken(m):
		rec.AvailableSince = w.provenSince(m)
	}
	rec.AvailableBoot = boot
	rec.UnavailableSince = time.Time{}
	if h := rec.Heals; h != nil && h.FailedDown > 0 {
		after := *h
		after.FailedDown = 0
		rec.Heals = &after
	}
}

// unbroken reports that no evidence shows a break in the health of m since the recorded start. The agent's
// monotonic clock shows breaks between passes. Without that clock, only a gap of at most stale_after is trusted.
func (w *world) unbroken(m *member) bool {
	since, r := m.record.AvailableSince, m.report
	if r.BootAt.After(since.Add(gapSlack)) && !r.BootAt.After(w.now) {
		return false
	}
	if r.HealthyFor > 0 {
		return !r.ReceivedAt.Add(-r.HealthyFor).After(since.Add(gapSlack))
	}
	looked := w.rec.Status.At
	return looked.IsZero() || w.now.Sub(looked) <= w.t.StaleAfter
}

// provenSince returns the time since which the report proves m healthy, by this leader's clock; now, when the
// report proves nothing. A clock difference between two leaders therefore costs no availability that the agent's
// monotonic clock proves.
func (w *world) provenSince(m *member) time.Time {
	r := m.report
	if r.HealthyFor <= 0 {
		return w.now
	}
	since := r.ReceivedAt.Add(-r.HealthyFor)
	if r.BootAt.After(since) && !r.BootAt.After(w.now) {
		since = r.BootAt
	}
	if since.After(w.now) {
		return w.now
	}
	return since
}

// gapSlack is the tolerance between the recorded start of health and the start that a report proves: the transport
// of a report takes time.
const gapSlack = 2 * time.Second

// forgetHeals removes the recorded attempts of m after a whole window of availability. The window ends at until,
// and starts at the later of the recorded start of availability and the last attempt.
func (w *world) forgetHeals(m *member, until time.Time) {
	rec := &m.record
	if rec.Heals == nil || rec.AvailableSince.IsZero() {
		return
	}
	since := rec.AvailableSince
	if at := rec.Heals.LastAt; !at.After(w.now) { // a leader whose clock was ahead wrote a time in the future
		since = later(since, at)
	}
	if until.Sub(since) >= group.HealWindow(w.spec) {
		rec.Heals = nil
	}
}
