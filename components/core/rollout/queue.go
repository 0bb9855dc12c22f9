package rollout

import (
	"slices"

	"cadre.dev/core/operation"
	"cadre.dev/core/queue"
)

// Queue has the limits of the cluster, and the facts of all groups as far as the leader knows them.
type Queue struct {
	Limits queue.Limits
	Groups []queue.Group
	// Unread says why the record of the limits cannot be read: no limited work begins then.
	Unread string
}

// limited returns the limit that applies to such work; "": none. Healing and requests by name are not limited, nor is
// the update of a member that is out of service already: it is the repair of that member.
func limited(kind operation.Kind, by operation.Actor, way operation.Way, down bool) queue.Limit {
	switch {
	case kind == operation.Create && by == operation.ActorScaling:
		return queue.Creations
	case kind == operation.Update && (by == operation.ActorRollout || by == "") && !way.Refreshes() && !down:
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

// place is the group's place for its status; nil without limits.
func (w *world) place(actions []Action) *queue.Place {
	if w.obs.Queue == nil {
		return nil
	}
	own := w.withOwn(nil)[0]
	out := &queue.Place{Step: w.waitAt(queue.Steps, own.Step, actions), Create: w.waitAt(queue.Creations, own.Create, actions)}
	out.Rollout = own.Steps > 0 || own.Rollout && w.advances() || slices.ContainsFunc(actions, func(a Action) bool { return a.takes() == queue.Steps })
	return out
}

// advances: the rollout runs, and waits for no person and no other group. Any other rollout
// gives its place up, so that a limit never waits for a person.
func (w *world) advances() bool {
	return w.rollout.State.Moves() && w.workLeft() && !w.lacksDecision() && !w.waitsByWord(endedByWord) && !w.waitsForOverrides()
}

// waitAt is the group's place in the line of a limit. was is the recorded one. It stays while such work is needed, and
// begins again with each piece of work that begins.
func (w *world) waitAt(limit queue.Limit, was queue.Wait, actions []Action) (out queue.Wait) {
	waits, begins := false, false
	for _, a := range actions {
		if limited(a.Kind, a.Actor, a.Way, a.Before.Unavailable) != limit || a.Operation != "" {
			continue
		}
		limits := slices.ContainsFunc(a.Holds, func(h Hold) bool { return h.Predicate == HoldClusterLimit })
		begins = begins || a.Execute
		waits = waits || limits || !a.Execute && !was.Since.IsZero()
		out.Ready = out.Ready || limits && len(a.Holds) == 1
	}
	if !waits {
		return queue.Wait{}
	}
	if out.Since = was.Since; begins || was.Since.IsZero() || was.Since.After(w.now) {
		out.Since = w.now
	}
	return out
}

// takes returns the limit at which a, which may begin now, gets a place; "": none.
func (a Action) takes() queue.Limit {
	if !a.Execute || a.Operation != "" || a.Retarget != nil {
		return ""
	}
	return limited(a.Kind, a.Actor, a.Way, a.Before.Unavailable)
}

// Limited reports that a step begins by the Plan that takes a place at a limit.
func (p *Plan) Limited() bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool { return a.takes() != "" })
}

// Place has the facts of the group after the Plan began its steps; ok is false without limits.
func (p *Plan) Place(priority int) (g queue.Group, ok bool) {
	if p.Status.Queue == nil {
		return g, false
	}
	g = queue.Group{Name: p.Group, Priority: priority, Place: *p.Status.Queue}
	for _, a := range p.Actions {
		switch {
		case a.Retarget != nil:
			g.Count(LimitOf(*a.Retarget))
		case a.Operation != "" || a.Execute:
			g.Count(limited(a.Kind, a.Actor, a.Way, a.Before.Unavailable))
		}
	}
	return g, true
}
