package rollout

import (
	"cmp"
	"slices"
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
	// Ills are the members that are not available, or healed just now, of groups that heal theirs. A member whose CVM
	// is down, that an operator keeps away, or that is in a step which does not heal, is none of them.
	Ills []Ill
	// RepairedAt is when the last repair of the cluster began that the limiter counts; zero: none is recorded.
	RepairedAt time.Time
}

// Ill is a member that is not available. Since is the beginning of that, TriedAt of the last repair of it that the
// limiter counts.
type Ill struct {
	Slot           string
	Since, TriedAt time.Time
}

// compare is the order in which ill members are repaired: what was tried longest ago is first.
func (i Ill) compare(other Ill) int {
	return cmp.Or(i.TriedAt.Compare(other.TriedAt), i.Since.Compare(other.Since), cmp.Compare(i.Slot, other.Slot))
}

func (f Fleet) silent() int { return max(f.Expected-f.Heard, 0) }

// sorted is f with its Silences and Ills in order: it is asked about each silent or ill member.
func (f Fleet) sorted() Fleet {
	if !slices.IsSortedFunc(f.Ills, Ill.compare) {
		f.Ills = slices.SortedFunc(slices.Values(f.Ills), Ill.compare)
	}
	if !slices.IsSortedFunc(f.Silences, time.Time.Compare) {
		f.Silences = slices.SortedFunc(slices.Values(f.Silences), time.Time.Compare)
	}
	return f
}

// with counts the silent agents but those whose silence began at quite another time than all of
// these; none, or zero: all of them.
func (f Fleet) with(at ...time.Time) int {
	if len(at) == 0 || slices.ContainsFunc(at, time.Time.IsZero) {
		return f.silent()
	}
	return f.silentBut(len(f.Silences) - f.near(at))
}

// silentBut counts the silent agents but so many of those whose silence is noted.
func (f Fleet) silentBut(n int) int { return max(f.silent()-n, 0) }

// near counts the Silences that began at about one of these times.
func (f Fleet) near(at []time.Time) (n int) {
	before := func(t time.Time) int { // how many began before it
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
func (f Fleet) dark(at time.Time) bool { return f.darkBy(f.with(at)) }

func (f Fleet) darkBy(silent int) bool {
	return f.Expected >= darkFrom && silent*darkShare >= f.Expected
}

// split is how many fell silent together, so many that the fleet is dark; 0: it is not.
func (f Fleet) split() int {
	most, from, to := 0, 0, 0 // of one time; from and to are around it
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
	if w.now.Sub(rec.SilenceFrom) > w.t.LostAfter/2 && w.obs.Fleet.dark(rec.SilenceFrom) {
		rec.SilenceFrom = w.now
	}
}
