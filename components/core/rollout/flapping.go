package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
)

// A flapping member passes min_ready between its outages, and a rollout would then take away the next member as
// well. A flapping member counts as available only after a longer time of readiness. Flapping has no other effect:
// an unhealthy member is healed as usual, and flapping starts no step (R9).

const (
	// flapWithin is how long a transition counts. Up to mostFlaps transitions are not flapping.
	flapWithin = 10 * time.Minute
	mostFlaps  = 3
	// keptFlaps is the maximum number of transitions in a Slot's record: more of them change no result.
	keptFlaps = 8
)

// noteFlaps adds the transitions of this pass to the records. A transition by the member's own step does not count.
func (w *world) noteFlaps() {
	for _, m := range w.everyone {
		if !m.fell || m.open != nil || m.pendingBoot.To != "" || w.followsNobody(m) {
			continue
		}
		// A leader whose clock was ahead wrote a time in the future.
		flaps := slices.DeleteFunc(slices.Clone(m.record.Flaps), func(at time.Time) bool { return at.After(w.now) || w.now.Sub(at) > flapWithin })
		flaps = append(flaps, m.record.UnavailableSince)
		m.record.Flaps = flaps[max(0, len(flaps)-keptFlaps):]
	}
}

// followsNobody reports that m runs and lacks only a leader, or is about to follow the next leader.
func (w *world) followsNobody(m *member) bool {
	return m.report != nil && m.report.alive() && w.view.roles && (w.merelyLeaderless(m) || w.handsOver())
}

// handsOver reports that a step in progress takes leadership from its member, or may do so by stopping it.
func (w *world) handsOver() bool {
	return slices.ContainsFunc(w.everyone, func(m *member) bool { return m.open != nil && (m.open.Transfer != nil || group.StopsLeader(w.spec)) })
}

// dropFlap removes the transition of the outage that ends now, if the report proves that m was healthy all the
// time. Then only its reports, or its CVM in a listing, were missing.
func (m *member) dropFlap(boot string) {
	rec, r, away := &m.record, m.report, m.record.UnavailableSince
	n := len(rec.Flaps)
	if n == 0 || !rec.Flaps[n-1].Equal(away) || rec.AvailableBoot != boot || r.HealthyFor <= 0 || r.ReceivedAt.Add(-r.HealthyFor).After(away) {
		return
	}
	rec.Flaps = slices.Clone(rec.Flaps[:n-1])
}

// dropFlaps removes the transitions of m, which is available, once none of them counts any more. A coordinator of
// an earlier release refuses a record with transitions.
func (w *world) dropFlaps(m *member) {
	if n := len(m.record.Flaps); n > 0 && w.now.Sub(m.record.Flaps[n-1]) > flapWithin {
		m.record.Flaps = nil
	}
}

// flapLeft is the time for which m must stay ready before it counts as available. It is zero where m does not flap,
// or was ready for long enough. A member that became ready long after its last transition, as after a step of its
// own, does not flap.
func (w *world) flapLeft(m *member) time.Duration {
	n, since := len(m.record.Flaps), cmp.Or(m.record.AvailableSince, w.now)
	if n <= mostFlaps || since.Sub(m.record.Flaps[n-1]) > flapWithin {
		return 0
	}
	return since.Add(w.flapHold()).Sub(w.now)
}

// flapsUntil is when m, which is ready and flaps, counts as available again.
func (w *world) flapsUntil(m *member) time.Time { return m.record.AvailableSince.Add(w.flapHold()) }

// flapHold is the minimum time of readiness of a flapping member. Twice a min_ready of zero would hold no member.
func (w *world) flapHold() time.Duration { return max(2*group.MinReady(w.spec), flapWithin/10) }

func (w *world) flapText() string {
	return fmt.Sprintf("more than %d times not available within %s, counts once it is ready for %s", mostFlaps, short(flapWithin), short(w.flapHold()))
}
