package rollout

import "time"

const (
	// fleetShare: more than one in so many agents silent is no failure of single members.
	fleetShare = 10
	// darkShare and darkFrom: of so many agents or more, one in three silent is a split.
	darkShare, darkFrom = 3, 10
)

// Fleet is how much is heard of all groups' agents: a leader that hears few of them is more
// likely cut off itself than right about each (R120). The zero value says nothing.
type Fleet struct {
	// Expected agents: admitted Boots that said no farewell and whose CVM is not known to be
	// down. Heard: those with a fresh report.
	Expected, Heard int
	// Down are the members whose CVM is known to be down or gone.
	Down int
}

func (f Fleet) silent() int { return max(f.Expected-f.Heard, 0) }

// manySilent: more than single members that failed by themselves.
func (f Fleet) manySilent() bool { return f.silent() > 1 && f.silent()*fleetShare > f.Expected }

// dark: so many agents are silent that silence says nothing about a member.
func (f Fleet) dark() bool {
	return f.Expected >= darkFrom && f.silent()*darkShare >= f.Expected
}

// keepSilence lets silence not count towards lost_after while the fleet is dark, and count
// anew after it (R120, R121). The record moves in half steps, so that a split writes little.
func (w *world) keepSilence(m *member) {
	rec := &m.record
	if m.ready || m.report != nil || !m.admitted() {
		rec.SilenceFrom = time.Time{}
		return
	}
	if w.obs.Fleet.dark() && (w.now.Sub(rec.SilenceFrom) > w.t.LostAfter/2 || rec.SilenceFrom.After(w.now)) {
		rec.SilenceFrom = w.now
	}
}
