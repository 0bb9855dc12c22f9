package rollout

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// storm is why the cause is more likely one that many share; "": it is not. What is down is made
// to run all the same, a CVM or the workload of a service: that takes nothing away. A disk is given
// up only while everybody else is well.
func (w *world) storm(c candidate) string {
	n, all := len(w.tally.unavailable), len(w.members)
	since := c.m.record.SilenceFrom
	if c.kind == operation.Replace {
		if why := w.costly(c.m); why != "" {
			return why
		}
	}
	switch {
	case c.condition == notBooted, c.service != "" && w.processDown(c.m):
		return ""
	case w.quorumLost() && w.illBeside(c.m):
		return "fewer voters than a majority are healthy"
	case all > 2 && 2*n > all:
		return fmt.Sprintf("%d of %d slots are unavailable", n, all)
	case all > 2 && 2*(n+w.tally.justBack) > all:
		return fmt.Sprintf("%d of %d slots were unavailable a moment ago, and the others have their time anew", n+w.tally.justBack, all)
	case c.condition == lost && w.obs.Fleet.manySilent(since):
		return fmt.Sprintf("%d of the cluster's %d agents are silent", w.obs.Fleet.with(since), w.obs.Fleet.Expected)
	}
	return ""
}

// illBeside: somebody else who votes is not well by himself, or cannot be heard. Where m alone is ill, as the only
// voter or the second of two, nothing is shared, and nobody but healing gives the quorum back (R119).
func (w *world) illBeside(m *member) bool {
	return slices.ContainsFunc(w.everyone, func(o *member) bool {
		return o != m && !o.missing() && w.voter(o) && (o.report == nil || o.condition != well)
	})
}

// stormOver is how long a storm holds once the members are available that came back by themselves: those
// that are still ill may be about to, like a process that is down (unwellFor).
const stormOver = time.Minute

// backUntil is until when m counts for a storm though it is available; zero: a step made it so, of
// the rollout or of healing, or it is away. Beside them min_ready has passed.
func (w *world) backUntil(m *member) time.Time {
	made := func(op *operation.Operation) bool { return !op.Times.Ended.Before(m.record.AvailableSince) }
	if last := m.last(); m.extra || !m.available || last != nil && made(last) || slices.ContainsFunc(m.healed, made) {
		return time.Time{}
	}
	return m.record.AvailableSince.Add(group.MinReady(w.spec) + stormOver)
}

// costly is why m's disk is not given up without an operator now: another member is not well, or of the
// cluster's members others went when m did; "": all are. A newcomer that only m keeps out of the set is not
// ill: it would wait for healing, and healing for it.
func (w *world) costly(m *member) string {
	gone := candidate{m: m, kind: operation.Replace, condition: m.condition}
	if n, _ := w.waitedFor(gone, w.tally.unavailable); n > 0 {
		return fmt.Sprintf("%d other slots are unavailable", n)
	}
	at := WentAt(m.record)
	if down, silent := w.obs.Fleet.downWith(at...), w.obs.Fleet.with(at...); down+silent > 1 {
		return fmt.Sprintf("%d members of the cluster are down, %d more are silent", down, silent)
	}
	return ""
}
