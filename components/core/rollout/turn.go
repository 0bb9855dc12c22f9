package rollout

import (
	"slices"

	"cadre.dev/core/queue"
)

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
	return w.rollout.State.Moves() && w.workLeft() && !w.lacksDecision() && !w.waitsByWord("") && !w.waitsForOverrides()
}

// waitAt is the group's place in the line of a limit. was is the recorded one. It stays while such work is needed, and
// begins again with each piece of work that begins.
func (w *world) waitAt(limit queue.Limit, was queue.Wait, actions []Action) (out queue.Wait) {
	waits, begins := false, false
	for _, a := range actions {
		if a.limit() != limit || a.Operation != "" {
			continue
		}
		limits := a.HeldBy(HoldClusterLimit)
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

func (a Action) limit() queue.Limit { return limited(a.Kind, a.Actor, a.Way, a.Before.Unavailable) }

// takes returns the limit at which a, which may begin now, gets a place; "": none.
func (a Action) takes() queue.Limit {
	if !a.Execute || a.Operation != "" || a.Retarget != nil {
		return ""
	}
	return a.limit()
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
			g.Count(a.limit())
		}
	}
	return g, true
}
