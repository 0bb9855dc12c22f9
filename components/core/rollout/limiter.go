package rollout

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Three rates bound the repairs that no operator asked for. The share of members that are ill selects the rate: the
// more are ill together, the more likely they share a cause that no restart mends. No rate is zero, so that a cause
// that went away ends without a person (R117, R119, R120).
const (
	// paceFew is the interval in a cluster of ten or more while few are ill. Until it is over the other members that
	// have the same illness are in the records as well.
	paceFew = 10 * time.Second
	// paceMost is the interval while most are ill. One repair is a trial, and its boot, its join and its recovery
	// have to show a result before the next one.
	paceMost = 15 * time.Minute
)

// share counts the members that are ill, of a group or of the cluster.
type share struct{ ill, all int }

func (s share) more(part int) bool { return s.ill*part > s.all }

// limiter decides when the next repair may begin. It is a token bucket of one token, which is empty when an outage
// begins, and its rate follows from the shares.
type limiter struct {
	group, cluster share
	// noQuorum: fewer voters of the group than a majority are healthy.
	noQuorum bool
	// dark: so many agents fell silent together that the coordinator itself may be cut off.
	dark bool
	// ahead counts the ill members of the cluster that are repaired first. Groups are planned at the same time, and
	// without it each of them would take the same token.
	ahead int
}

// pace is the least time between two repairs of the group and between two of the cluster, and why it is long; "": it
// is not.
func (l limiter) pace() (group, cluster time.Duration, why string) {
	switch {
	case l.dark:
		cluster = paceMost
	case l.cluster.ill > 1 && l.cluster.more(fleetShare):
		cluster = unwellFor
	case l.cluster.all >= darkFrom:
		cluster = paceFew
	}
	switch {
	case l.group.ill <= 1:
	case l.noQuorum, l.group.all > 2 && l.group.more(2):
		group = paceMost
	default:
		group = unwellFor
	}
	switch {
	case group == 0 && cluster <= paceFew:
	case cluster > group:
		why = fmt.Sprintf("%d of the cluster's %d members are ill", l.cluster.ill, l.cluster.all)
	default:
		why = fmt.Sprintf("%d of %d slots are ill, or were a moment ago", l.group.ill, l.group.all)
	}
	return group, cluster, why
}

// next is from when on a member that is ill since a time may be repaired, where the last repair of its group and of
// the cluster began at these times.
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

// limiterFor is the limiter as it is for m.
func (w *world) limiterFor(m *member) limiter {
	f := w.obs.Fleet
	mine := Ill{Slot: m.slot, Since: m.record.UnavailableSince, TriedAt: m.record.Heals.Rated()}
	ahead, _ := slices.BinarySearchFunc(f.Ills, mine, Ill.compare)
	return limiter{
		group:    share{w.bucket().ill, len(w.members)},
		cluster:  share{max(len(f.Ills), f.silent()), f.Expected},
		noQuorum: w.quorumLost(),
		dark:     f.dark(m.record.SilenceFrom),
		ahead:    ahead,
	}
}

// bucket is the state of the token bucket of a group.
type bucket struct {
	ill int
	// emptied is when the bucket was emptied last: by a repair, or by a member that recovered automatically. The other
	// members may be about to recover too, and get their time again (R121).
	emptied time.Time
}

func (w *world) bucket() bucket {
	return w.found.bucket.of(func() (b bucket) {
		for _, m := range w.members {
			b.emptied = later(b.emptied, m.record.Heals.Rated())
			if w.now.Before(w.backUntil(m)) {
				b.emptied = later(b.emptied, m.record.AvailableSince)
				b.ill++
			} else if w.counts(m) {
				b.ill++
			}
		}
		return b
	})
}

// counts: m is one of the ill. A member that a step of the rollout took away is none of them: such a step may wait for
// the repair of another member, which must not wait for the step. Nor is a member that merely has no leader.
func (w *world) counts(m *member) bool {
	waits := m.report != nil && !m.ready && m.condition == well
	return !m.extra && m.unavailable() && !waits && (m.open == nil || m.open.Actor == operation.ActorHealing)
}

// backUntil is until when an available m counts as ill; zero: it is away, or a step brought it back, of the rollout or
// of healing.
func (w *world) backUntil(m *member) time.Time {
	made := func(op *operation.Operation) bool { return !op.Times.Ended.Before(m.record.AvailableSince) }
	if last := m.last(); m.extra || !m.available || last != nil && made(last) || slices.ContainsFunc(m.healed, made) {
		return time.Time{}
	}
	return m.record.AvailableSince.Add(group.MinReady(w.spec) + unwellFor)
}

// holdsOfRate holds a repair until the limiter lets it begin.
func (w *world) holdsOfRate(c candidate, l look) []Hold {
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
		return []Hold{holdUntil(from, HoldHealDeferred, "%s fell ill a moment ago, or another repair began; healed in %s", m.slot, short(wait))}
	default:
		return []Hold{holdUntil(from, HoldHealStorm, "%s, and a cause that they share is not mended by restarts, which go one by one: %s in %s; heal it yourself: %s",
			why, m.slot, short(wait), byHand(c))}
	}
}
