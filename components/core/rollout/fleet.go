package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/group"
)

const (
	// fleetShare: more than one silent agent in fleetShare agents is no failure of single members.
	fleetShare = 10
	// darkShare and darkFrom: with at least darkFrom agents, one silent agent in darkShare is a network split.
	darkShare, darkFrom = 3, 10
	// silentTogether is the maximum distance between silences of one cause: twice the time until the leader accepts
	// a silence as real. Members that fell silent on other days are no reason to leave this member alone.
	silentTogether = 10 * time.Minute
)

func (f Fleet) silent() int { return max(f.Expected-f.Heard, 0) }

// sorted is f with its Silences and Unhealthy in order: the planner searches them for each silent or unhealthy member.
func (f Fleet) sorted() Fleet {
	if !slices.IsSortedFunc(f.Unhealthy, UnhealthyMember.compare) {
		f.Unhealthy = slices.SortedFunc(slices.Values(f.Unhealthy), UnhealthyMember.compare)
	}
	if !slices.IsSortedFunc(f.Silences, time.Time.Compare) {
		f.Silences = slices.SortedFunc(slices.Values(f.Silences), time.Time.Compare)
	}
	return f
}

// with counts the silent agents, except agents whose recorded silence began far from all of these times. Without
// times, or with a zero time, it counts all silent agents.
func (f Fleet) with(at ...time.Time) int {
	if len(at) == 0 || slices.ContainsFunc(at, time.Time.IsZero) {
		return f.silent()
	}
	return f.silentBut(len(f.Silences) - f.near(at))
}

// silentBut counts the silent agents minus n agents whose silence is recorded.
func (f Fleet) silentBut(n int) int { return max(f.silent()-n, 0) }

// near counts the Silences that began close to one of these times.
func (f Fleet) near(at []time.Time) (n int) {
	before := func(t time.Time) int { // the number of silences that began earlier
		i, _ := slices.BinarySearchFunc(f.Silences, t, time.Time.Compare)
		return i
	}
	counted := 0
	for _, t := range slices.SortedFunc(slices.Values(at), time.Time.Compare) {
		from, to := max(before(t.Add(-silentTogether)), counted), before(t.Add(silentTogether+1))
		if to > from {
			n, counted = n+to-from, to
		}
	}
	return n
}

// downWith counts the members that are down, except members whose outage began far from all of these times. Without
// times, it counts all of them.
func (f Fleet) downWith(at ...time.Time) int {
	n := f.Down
	for _, went := range f.Downs {
		if apart(went, at) {
			n--
		}
	}
	return max(n, 0)
}

// apart reports that the events at the times a and the events at the times b are unrelated.
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

// WentAt returns the recorded times at which a member went out of service, fell silent, and left the platform's
// listing. A restart that did not help moves some of these times, so that no single time proves a common cause with
// another member.
func WentAt(r group.SlotRecord) (at []time.Time) {
	for _, since := range []time.Time{r.UnavailableSince, r.SilenceFrom, r.MissedSince} {
		if !since.IsZero() {
			at = append(at, since)
		}
	}
	return at
}

// manySilent reports that the silent agents around that time are too many to be failures of single members.
func (f Fleet) manySilent(at time.Time) bool {
	n := f.with(at)
	return n > 1 && n*fleetShare > f.Expected
}

// dark reports that so many agents fell silent around that time that silence is no evidence about a member.
func (f Fleet) dark(at time.Time) bool { return f.darkBy(f.with(at)) }

func (f Fleet) darkBy(silent int) bool {
	return f.Expected >= darkFrom && silent*darkShare >= f.Expected
}

// split is the number of agents that fell silent together, if they make the fleet dark; 0: the fleet is not dark.
func (f Fleet) split() int {
	most, from, to := 0, 0, 0 // most counts the silences around one time, which lie between from and to
	for _, at := range f.Silences {
		for f.Silences[from].Before(at.Add(-silentTogether)) {
			from++
		}
		for to < len(f.Silences) && !f.Silences[to].After(at.Add(silentTogether)) {
			to++
		}
		most = max(most, to-from)
	}
	if n := f.silentBut(len(f.Silences) - most); f.darkBy(n) {
		return n
	}
	return 0
}

// keepSilence records the start of m's silence, even if m was unavailable before. While the fleet is dark, silence
// does not count towards lost_after; afterwards it counts from zero (R120, R121). The record moves in half steps,
// so that a split causes few writes.
func (w *world) keepSilence(m *member) {
	rec := &m.record
	if m.ready || m.report != nil || !m.admitted() {
		rec.SilenceFrom = time.Time{}
		return
	}
	if rec.UnavailableSince.IsZero() {
		return // the start of the outage is not known yet
	}
	if m.open == nil && rec.SilenceFrom.IsZero() || rec.SilenceFrom.After(w.now) { // a silence in a step is expected
		rec.SilenceFrom = w.now
		if r := m.seen.Report; r != nil && r.BootID == m.seen.Admission.BootID && r.ReceivedAt.Before(w.now) {
			rec.SilenceFrom = r.ReceivedAt
		}
	}
	if w.now.Sub(rec.SilenceFrom) > w.t.LostAfter/2 && w.obs.Fleet.dark(rec.SilenceFrom) {
		rec.SilenceFrom = w.now
	}
}
