package rollout

import (
	"time"

	"cadre.dev/core/group"
)

const (
	// fleetShare: more than one in so many agents silent is no failure of single members.
	fleetShare = 10
	// darkShare and darkFrom: of so many agents or more, one in three silent is a split.
	darkShare, darkFrom = 3, 10
	// silentTogether is how far apart silences with one cause begin, at most: twice what it takes
	// to believe one. Members that fell silent on other days are no reason to leave this one alone.
	silentTogether = 10 * time.Minute
)

// Fleet is how much is heard of all groups' agents: a leader that hears few of them is more
// likely cut off itself than right about each (R120). The zero value says nothing.
type Fleet struct {
	// Expected agents: admitted Boots that said no farewell and whose CVM is not known to be
	// down. Heard: those with a fresh report. Nobody is expected, or down, who is drained, left out
	// of healing, or in a step that does not heal.
	Expected, Heard int
	// Down are the members whose CVM is known to be down or gone, Downs when each of them went
	// (WentAt), where that is recorded.
	Down  int
	Downs [][]time.Time
	// Silences are since when silent agents are, as it was recorded. One that nobody noted yet is
	// not among them.
	Silences []time.Time
}

func (f Fleet) silent() int { return max(f.Expected-f.Heard, 0) }

// with counts the silent agents but those whose silence began at quite another time than all of
// these; none, or zero: all of them.
func (f Fleet) with(at ...time.Time) int {
	n := f.silent()
	for _, since := range f.Silences {
		if apart([]time.Time{since}, at) {
			n--
		}
	}
	return max(n, 0)
}

// downWith counts those that are down but those that went at quite another time than all of these;
// none: all.
func (f Fleet) downWith(at ...time.Time) int {
	n := f.Down
	for _, went := range f.Downs {
		if apart(went, at) {
			n--
		}
	}
	return max(n, 0)
}

// apart: what happened at these times, and what at those, had nothing to do with each other.
func apart(a, b []time.Time) bool {
	for _, x := range a {
		for _, y := range b {
			if y.IsZero() || x.Sub(y).Abs() <= silentTogether {
				return false
			}
		}
	}
	return len(a) > 0 && len(b) > 0
}

// WentAt are the moments at which a member went, as its record tells: out of service, silent, off the
// platform. A restart that did not help moves some of them, and none of them tells alone what it has
// in common with another one.
func WentAt(r group.SlotRecord) (at []time.Time) {
	for _, since := range []time.Time{r.UnavailableSince, r.SilenceFrom, r.MissedSince} {
		if !since.IsZero() {
			at = append(at, since)
		}
	}
	return at
}

// manySilent: more than single members that failed by themselves, when one did at that time.
func (f Fleet) manySilent(at time.Time) bool {
	n := f.with(at)
	return n > 1 && n*fleetShare > f.Expected
}

// dark: so many agents fell silent at about that time that silence says nothing about a member.
func (f Fleet) dark(at time.Time) bool {
	return f.Expected >= darkFrom && f.with(at)*darkShare >= f.Expected
}

// split is how many fell silent together, so many that the fleet is dark; 0: it is not.
func (f Fleet) split() (n int) {
	for _, at := range f.Silences {
		if f.dark(at) {
			n = max(n, f.with(at))
		}
	}
	if len(f.Silences) == 0 && f.dark(time.Time{}) {
		return f.silent()
	}
	return n
}

// keepSilence notes since when m is silent, whatever else it was before. It lets silence not count
// towards lost_after while the fleet is dark, and count anew after it (R120, R121). The record moves
// in half steps, so that a split writes little.
func (w *world) keepSilence(m *member) {
	rec := &m.record
	if m.ready || m.report != nil || !m.admitted() {
		rec.SilenceFrom = time.Time{}
		return
	}
	if rec.UnavailableSince.IsZero() {
		return // nobody knows enough yet
	}
	if m.open == nil && rec.SilenceFrom.IsZero() || rec.SilenceFrom.After(w.now) { // in a step silence is no news
		rec.SilenceFrom = w.now
		if r := m.seen.Report; r != nil && r.BootID == m.seen.Admission.BootID && r.ReceivedAt.Before(w.now) {
			rec.SilenceFrom = r.ReceivedAt
		}
	}
	if w.obs.Fleet.dark(rec.SilenceFrom) && w.now.Sub(rec.SilenceFrom) > w.t.LostAfter/2 {
		rec.SilenceFrom = w.now
	}
}
