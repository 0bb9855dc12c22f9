package rollout

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Three rates bound the repairs that no operator requested. The share of unhealthy members selects the rate: the more
// members fail together, the more likely they share a cause that no restart repairs. Every rate is above zero, so the
// repairs of a past outage need no operator (R117, R119, R120).
const (
	// paceFew is the interval in a cluster of ten or more while few members are unhealthy. When it ends, the records
	// include the other members with the same fault.
	paceFew = 10 * time.Second
	// paceMost is the interval while most members are unhealthy. One repair is a trial: its boot, its join and its
	// recovery must show a result before the next repair.
	paceMost = 15 * time.Minute
)

// share counts the unhealthy members of a group or of the cluster.
type share struct{ unhealthy, all int }

func (s share) more(part int) bool { return s.unhealthy*part > s.all }

// limiter decides when the next repair may begin. It is a token bucket of one token. The bucket is empty when an
// outage begins, and the shares set its rate.
type limiter struct {
	group, cluster share
	// noQuorum: the group has fewer healthy voters than a majority.
	noQuorum bool
	// dark: so many agents stopped reporting together that the coordinator itself may be cut off.
	dark bool
	// ahead counts the unhealthy members of the cluster that are repaired first. Groups are planned at the same time;
	// without ahead, each group would take the same token.
	ahead int
}

// pace returns the least time between two repairs of the group and of the cluster, and the reason of a long time. "":
// the time is short.
func (l limiter) pace() (group, cluster time.Duration, why string) {
	switch {
	case l.dark:
		cluster = paceMost
	case l.cluster.unhealthy > 1 && l.cluster.more(fleetShare):
		cluster = unwellFor
	case l.cluster.all >= darkFrom:
		cluster = paceFew
	}
	switch {
	case l.group.unhealthy <= 1:
	case l.noQuorum, l.group.all > 2 && l.group.more(2):
		group = paceMost
	default:
		group = unwellFor
	}
	switch {
	case group == 0 && cluster <= paceFew:
	case cluster > group:
		why = fmt.Sprintf("%d of the cluster's %d members are unhealthy", l.cluster.unhealthy, l.cluster.all)
	default:
		why = fmt.Sprintf("%d of %d slots are unhealthy, or were a moment ago", l.group.unhealthy, l.group.all)
	}
	return group, cluster, why
}

// next returns the time from which a member may be repaired that has been unhealthy since a time. ofGroup and
// ofCluster are the beginnings of the last repair of its group and of the cluster.
func (l limiter) next(since, ofGroup, ofCluster time.Time) (from time.Time, why string) {
	group, cluster, why := l.pace()
	if group > 0 {
		from = later(since, ofGroup).Add(group)
	}
	if cluster > 0 {
		from = later(from, later(since, ofCluster).Add(cluster)).Add(time.Duration(l.ahead) * paceFew)
	}
	return from, why
}

// limiterFor returns the limiter for m.
func (w *world) limiterFor(m *member) limiter {
	f := w.obs.Fleet
	mine := UnhealthyMember{Slot: m.slot, Since: m.record.UnavailableSince, TriedAt: m.record.Heals.Rated()}
	ahead, _ := slices.BinarySearchFunc(f.Unhealthy, mine, UnhealthyMember.compare)
	return limiter{
		group:    share{w.bucket().unhealthy, len(w.members)},
		cluster:  share{max(len(f.Unhealthy), f.silent()), f.Expected},
		noQuorum: w.quorumLost(),
		dark:     f.dark(m.record.SilenceFrom),
		ahead:    ahead,
	}
}

func (w *world) bucket() bucket {
	return w.tally.bucket.of(func() (b bucket) {
		dead := map[string]bool{}
		for _, m := range w.members {
			b.emptied = later(b.emptied, m.record.Heals.Rated())
			if w.now.Before(w.backUntil(m)) {
				b.emptied = later(b.emptied, m.record.AvailableSince)
				b.unhealthy++
			} else if m.counts() && w.firstOfNode(m, dead) {
				b.unhealthy++
			}
		}
		return b
	})
}

// counts: m is an unhealthy member for the limiter. A member that a rollout's step took away is excluded: such a step
// may wait for another member's repair. That repair must not wait for the step. A member that only lacks a leader is
// excluded too.
func (m *member) counts() bool {
	waits := m.report != nil && !m.ready && m.condition == well
	return !m.extra && m.unavailable() && !waits && (m.open == nil || m.open.Actor == operation.ActorHealing)
}

// backUntil returns until when an available m counts as unhealthy. Zero: m is away, or a step of the rollout or of
// healing brought m back.
func (w *world) backUntil(m *member) time.Time {
	made := func(op *operation.Operation) bool { return !op.Times.Ended.Before(m.record.AvailableSince) }
	if last := m.last(); m.extra || !m.available || last != nil && made(last) || slices.ContainsFunc(m.healed, made) {
		return time.Time{}
	}
	return m.record.AvailableSince.Add(group.MinReady(w.spec) + unwellFor)
}

// holdsOfRate holds a repair until the limiter lets it begin.
func (w *world) holdsOfRate(c candidate, l evaluation) []Hold {
	m := c.m
	if c.kind != operation.Restart || m.record.UnavailableSince.IsZero() {
		return nil // costly bounds a replacement
	}
	emptied := w.bucket().emptied
	if l.taken.healing > 0 {
		emptied = w.now
	}
	from, why := w.limiterFor(m).next(m.record.UnavailableSince, emptied, w.obs.Fleet.RepairedAt)
	switch wait := from.Sub(w.now); {
	case wait <= 0:
		return nil
	case why == "":
		return []Hold{holdUntil(from, HoldHealBackoff, "%s became unhealthy a moment ago, or another repair began; healed in %s", m.slot, short(wait))}
	default:
		return []Hold{holdUntil(from, HoldHealStorm, "%s, and a cause that they share is not mended by restarts, which go one by one: %s in %s; heal it yourself: %s",
			why, m.slot, short(wait), byHand(c))}
	}
}
