package rollout

import (
	"slices"

	"cadre.dev/core/operation"
	"cadre.dev/core/queue"
)

// limited returns the limit that applies to such work; "": none. Healing and requests by name are not limited, nor is
// the update of a member that is out of service already: it is the repair of that member.
func limited(kind operation.Kind, by operation.Actor, way operation.Way, down bool) queue.Limit {
	switch {
	case kind == operation.Create && by == operation.ActorScaling:
		return queue.Creations
	case kind.Rolls(by) && (by == operation.ActorRollout || by == "") && !way.Refreshes() && !down:
		return queue.Steps
	}
	return ""
}

// limitOf is limited for a step that has no record yet. A recorded step has its place.
func (w *world) limitOf(c candidate) queue.Limit {
	var way operation.Way
	if c.refresh {
		way.Mode = operation.ModeRefresh
	}
	if c.m.open != nil {
		return ""
	}
	return limited(c.kind, c.actor, way, c.m.down())
}

// holdsOfLimits holds work that has no place at the limits of the cluster.
func (w *world) holdsOfLimits(c candidate, l evaluation) []Hold {
	q, limit := w.obs.Queue, w.limitOf(c)
	if q == nil || limit == "" || w.ending() {
		return nil
	}
	if q.Unread != "" {
		return []Hold{hold(HoldClusterLimit, "the limits of the cluster cannot be read: %s; correct them: cadre limits set, or cadre limits clear", q.Unread)}
	}
	grant := w.found.grant.of(func() queue.Grant { return queue.Judge(q.Limits, w.withOwn(q.Groups), w.spec.Name) })
	v, begun := grant.Step, l.taken.steps
	if limit == queue.Creations {
		v, begun = grant.Create, len(l.taken.creates)
	}
	if begun < v.Room {
		return nil
	}
	return []Hold{hold(HoldClusterLimit, "%s; `cadre queue` shows it", v.Text(q.Limits))}
}

// withOwn returns the facts of all groups, with those of this group from its own records.
func (w *world) withOwn(groups []queue.Group) []queue.Group {
	own := queue.Group{Name: w.spec.Name, Priority: w.spec.PriorityOrDefault()}
	if was := w.rec.Status.Queue; was != nil {
		own.Place = *was
	}
	for _, m := range w.everyone {
		if m.open != nil {
			own.Count(LimitOf(*m.open))
		}
	}
	return append(slices.DeleteFunc(slices.Clone(groups), func(g queue.Group) bool { return g.Name == own.Name }), own)
}

// LimitOf returns the limit at which an open Operation has a place; "": none.
func LimitOf(op operation.Operation) queue.Limit {
	return limited(op.Kind, op.Actor, op.Way, op.Before.Unavailable)
}
