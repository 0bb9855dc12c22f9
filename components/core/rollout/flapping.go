package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
)

// A member that is well and ill by turns passes min_ready in between, and a rollout would take the next
// one away beside it. It counts again once it was well for longer, and nothing else is done about it: what
// is ill is healed as ever, and to flap is no reason for anything (R9).

const (
	// flapWithin is how long a transition counts, mostFlaps how many of them are none to speak of.
	flapWithin = 10 * time.Minute
	mostFlaps  = 3
	// keptFlaps bounds what is kept of a Slot: by more it does not flap any more than by these.
	keptFlaps = 8
)

// noteFlaps adds the transitions of this pass to the records. A step of the member's own is none.
func (w *world) noteFlaps() {
	for _, m := range w.everyone {
		if !m.fell || m.open != nil || m.moved != nil || w.followsNobody(m) {
			continue
		}
		// A time to come was written by a leader whose clock was ahead.
		flaps := slices.DeleteFunc(slices.Clone(m.record.Flaps), func(at time.Time) bool { return at.After(w.now) || w.now.Sub(at) > flapWithin })
		flaps = append(flaps, m.record.UnavailableSince)
		m.record.Flaps = flaps[max(0, len(flaps)-keptFlaps):]
	}
}

// followsNobody: m runs, and what it lacks is a leader, or it is about to follow the one that takes over.
func (w *world) followsNobody(m *member) bool {
	return m.report != nil && m.report.alive() && w.view.roles && (w.merelyLeaderless(m) || w.handsOver())
}

// handsOver: a step is under way that takes leadership from its member.
func (w *world) handsOver() bool {
	return slices.ContainsFunc(w.everyone, func(m *member) bool { return m.open != nil && m.open.Transfer != nil })
}

// dropFlap forgets the transition of the outage that ends now, where it was none: the report proves that
// m was well all the time, and was only not heard, or not listed.
func (m *member) dropFlap(boot string) {
	rec, r, away := &m.record, m.report, m.record.UnavailableSince
	n := len(rec.Flaps)
	if n == 0 || !rec.Flaps[n-1].Equal(away) || rec.AvailableBoot != boot || r.HealthyFor <= 0 || r.ReceivedAt.Add(-r.HealthyFor).After(away) {
		return
	}
	rec.Flaps = slices.Clone(rec.Flaps[:n-1])
}

// dropFlaps forgets the transitions of m, which is available, once none of them counts any more: a
// coordinator of an earlier release reads no record that has them.
func (w *world) dropFlaps(m *member) {
	if n := len(m.record.Flaps); n > 0 && w.now.Sub(m.record.Flaps[n-1]) > flapWithin {
		m.record.Flaps = nil
	}
}

// flapLeft is how long m, which is or may be ready again, must be before it counts; nothing where it does
// not flap, or was for long enough. What began to be ready long after the last transition, as after a step
// of its own, does not flap.
func (w *world) flapLeft(m *member) time.Duration {
	n, since := len(m.record.Flaps), cmp.Or(m.record.AvailableSince, w.now)
	if n <= mostFlaps || since.Sub(m.record.Flaps[n-1]) > flapWithin {
		return 0
	}
	return since.Add(w.flapHold()).Sub(w.now)
}

// flapsUntil is when m, which is ready and flaps, counts again.
func (w *world) flapsUntil(m *member) time.Time { return m.record.AvailableSince.Add(w.flapHold()) }

// flapHold is how long one that flaps is ready at least before it counts: twice a min_ready of nothing holds no member.
func (w *world) flapHold() time.Duration { return max(2*group.MinReady(w.spec), flapWithin/10) }

func (w *world) flapText() string {
	return fmt.Sprintf("more than %d times not available within %s, counts once it is ready for %s", mostFlaps, short(flapWithin), short(w.flapHold()))
}

// flapping are the Slots that flap, also while they are not ready, but not in a step of their own.
func (w *world) flapping() []string {
	var slots []string
	for _, m := range w.members {
		if m.open == nil && w.flapLeft(m) > 0 {
			slots = append(slots, m.slot)
		}
	}
	return slots
}
