package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// move is a pair of Revisions.
type move struct{ from, to string }

// changes returns the fields in which two Revisions of the group differ. ok is false where either Revision is not
// recorded.
func (w *world) changes(from, to string) (list []group.Change, ok bool) {
	if list, ok := w.moves[move{from, to}]; ok {
		return list, true
	}
	before, known := w.contentOf(from)
	after, wanted := w.contentOf(to)
	switch {
	case !known || !wanted:
		return nil, false
	case from == to:
		return nil, true
	}
	list = group.Changes(before, after)
	if w.moves == nil {
		w.moves = make(map[move][]group.Change)
	}
	w.moves[move{from, to}] = list
	return list, true
}

// contentOf returns the spec with the content of a Revision of the group.
func (w *world) contentOf(revision string) (group.Spec, bool) {
	if revision == w.target {
		return w.spec, true
	}
	r, ok := w.rec.Revisions[revision]
	if !ok || r.Template.Compose == "" {
		return group.Spec{}, false
	}
	s := w.spec.With(r.AgentSpec)
	s.Template, s.RestartToken = r.Template, r.RestartToken
	return s, true
}

// runs is the Revision that m runs as far as is known: the proven one, or else the assigned one.
func (m *member) runs() string { return cmp.Or(m.observed, m.record.Assigned) }

// takes returns the update action that m needs, and the changes that the update makes.
func (w *world) takes(m *member) (group.UpdateAction, []group.Change) {
	list, known := w.changes(m.runs(), m.want.revision)
	if w.envUnapplied(m) {
		list = withEnv(m.ordinal, list)
	}
	return w.costs(list, known, func() bool { return w.attestable(m) }), list
}

// costs returns the action of a step that makes these changes. known means that the list is complete. The minimum
// is a restart, except where the running Boot can prove the result.
func (w *world) costs(list []group.Change, known bool, proves func() bool) group.UpdateAction {
	needed := group.StepAction(w.spec, list)
	if known && len(list) > 0 && !needed.Harsher(group.ActionRefresh) && proves() {
		return group.ActionRefresh
	}
	return group.Harshest(group.ActionRestart, needed)
}

// refreshes reports that the running Boot of m can reach the wanted Revision.
func (w *world) refreshes(m *member) bool {
	needed, _ := w.takes(m)
	return needed == group.ActionRefresh
}

// attestable reports that the running Boot of m can prove the wanted Revision without a restart. The CVM then
// measures as the wanted Revision, as far as is known, and its Boot is admitted at another Revision. A CVM that
// differs from its Revision boots again after any change. So does a CVM in a step, except in a refresh, or in a
// step that a refresh follows.
func (w *world) attestable(m *member) bool {
	i := m.seen.Instance
	switch {
	case !i.Running(), i.BootError != "", m.observed == "", m.observed == m.want.revision, m.moved.To != "", m.bootedElsewhere():
		return false
	case m.open != nil && m.open.Kind != operation.Drain:
		if !m.open.Way.Refreshes() && !w.refreshedAfter(m) {
			return false
		}
	case m.open == nil && m.condition < lost && !w.correctsChecks(m):
		return false // a second attestation would not heal it: the planner heals or boots it
	case m.record.Assigned != m.observed && m.record.Assigned != "":
		return false // it may be about to boot the content that it was given
	}
	return w.measuredAs(i, m.want.revision)
}

// correctsChecks reports that the failing checks of m are its only fault, and that the wanted Revision changes each
// of them. The process works and the agent reports, so that the proof needs no boot.
func (w *world) correctsChecks(m *member) bool {
	if m.condition != impaired || len(m.report.Failing) == 0 {
		return false
	}
	list, _ := w.changes(m.runs(), m.want.revision)
	return !slices.ContainsFunc(m.report.Failing, func(check string) bool {
		path := fmt.Sprintf("health_check[%q]", check)
		return !slices.ContainsFunc(list, func(c group.Change) bool { return strings.HasPrefix(c.Path, path) })
	})
}

// takesRefresh reports that the difference between two Revisions needs only a refresh, and that the CVM of m
// measures as both.
func (w *world) takesRefresh(m *member, from, to string) bool {
	i := m.seen.Instance
	list, known := w.changes(from, to)
	return i != nil && w.costs(list, known, func() bool { return w.measuredAs(i, to) }) == group.ActionRefresh
}

// measuredAs reports that the CVM measures as the Revision, as far as is known.
func (w *world) measuredAs(i *Instance, revision string) bool {
	wanted := w.rec.Revisions[revision].ComposeHash
	return (wanted == "" || i.ComposeHash == wanted) && i.Shape.Shows(w.shapeOf(revision))
}

// tooHarsh returns the first outdated member whose update needs a harsher action than the spec allows, or nil.
func (w *world) tooHarsh() *member {
	if len(w.tally.tooHarsh) == 0 {
		return nil
	}
	return w.tally.tooHarsh[0]
}

// exceeds reports that the update of m needs a harsher action than the spec allows (R132).
func (w *world) exceeds(m *member) bool {
	allowed := group.MostDisruptive(w.spec)
	if !group.ActionRestart.Harsher(allowed) {
		return false // no update is ever harsher
	}
	needed, _ := w.takes(m)
	return needed.Harsher(allowed)
}

// holdsOfHarshness is R132: a rollout is never applied partially. One Slot whose action is not allowed therefore
// holds the other Slots too. A Slot that an operator's request names is updated.
func (w *world) holdsOfHarshness(c candidate, _ look) []Hold {
	m := c.m
	if c.marked {
		return nil
	}
	also := ""
	if !w.exceeds(m) {
		if m = w.tooHarsh(); m == nil {
			return nil
		}
		also = ", and nothing of a rollout is done by half"
	}
	needed, list := w.takes(m)
	allowed := group.MostDisruptive(w.spec)
	return []Hold{hold(HoldActionNotAllowed, "the update of %s takes %s%s and update_policy.most_disruptive_allowed_action is %s%s; allow %s, put back what changed, or update the slot by its name: cadre instance update %s",
		m.slot, needed, because(group.Exceeding(list, allowed)), allowed, also, needed, m.slot)}
}

// because names some of the changes in brackets.
func because(list []group.Change) string {
	if len(list) == 0 {
		return ""
	}
	paths := make([]string, len(list))
	for i, c := range list {
		paths[i] = c.Path
	}
	return fmt.Sprintf(" (%s)", Few(paths, ", "))
}

// actionOf is the update action of c; empty for a step without one.
func (w *world) actionOf(c candidate) group.UpdateAction {
	switch c.kind {
	case operation.Update:
		needed, _ := w.takes(c.m)
		if c.marked && !c.refresh {
			needed = group.Harshest(needed, group.ActionRestart) // a silent agent proves no Revision
		}
		return needed
	case operation.Restart:
		return group.ActionRestart
	case operation.Replace:
		return group.ActionReplace
	case operation.Create, operation.Delete, operation.Drain:
	}
	return ""
}

// movesOf returns the distinct Revision pairs among actions, in their order, where both Revisions are recorded.
func (w *world) movesOf(actions []Action) []Move {
	var out []Move
	for _, a := range actions {
		known := a.From != a.To && slices.ContainsFunc(out, func(m Move) bool { return m.From == a.From && m.To == a.To })
		if a.Kind != operation.Update || known {
			continue
		}
		list, ok := w.changes(a.From, a.To)
		if m := w.find(a.Slot); m != nil && a.From == a.To && w.envUnapplied(m) {
			list = withEnv(m.ordinal, list)
		}
		if ok && len(list) > 0 {
			out = append(out, Move{From: a.From, To: a.To, Changes: list})
		}
	}
	return out
}
