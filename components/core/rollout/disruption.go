package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
)

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
	list = append(slices.Clip(list), w.unapplied(m)...)
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
	case !i.Running(), i.BootError != "", m.observed == "", m.observed == m.want.revision, m.pendingBoot.To != "", m.bootedElsewhere():
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
	return w.measuredAs(m.ordinal, i, m.want.revision)
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
	return i != nil && w.costs(list, known, func() bool { return w.measuredAs(m.ordinal, i, to) }) == group.ActionRefresh
}

// measuredAs reports that the CVM of a Slot measures as the Revision, as far as is known.
func (w *world) measuredAs(ordinal int, i *Instance, revision string) bool {
	wanted := w.rec.Revisions[revision].ComposeHash
	return (wanted == "" || i.ComposeHash == wanted) && w.shows(ordinal, i, revision)
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

// because names some of the changes in brackets.
func because(list []group.Change) string {
	if len(list) == 0 {
		return ""
	}
	paths := make([]string, len(list))
	for i, c := range list {
		paths[i] = c.Path
	}
	return fmt.Sprintf(" (%s)", names.Few(paths, ", "))
}

// refreshedAfter: after its open step, m still needs only a refresh of the Boot that the step leads to. No new step
// stops m for that. An open refresh is followed by the next refresh at once.
func (w *world) refreshedAfter(m *member) bool {
	return !m.open.Way.Refreshes() && w.onlyAgentSpec(m) && !w.correctsHook(m)
}

// onlyAgentSpec reports that the update of m needs no more than a refresh of a healthy Boot.
func (w *world) onlyAgentSpec(m *member) bool {
	return len(w.unapplied(m)) == 0 && w.takesRefresh(m, m.runs(), m.want.revision)
}

// heldByHook: a POST_LAUNCH hook holds the step of m, which reports, and no deadline ends the hold.
func (m *member) heldByHook() bool {
	return slices.ContainsFunc(m.report.Steps, func(s StepReport) bool {
		return s.Operation == m.open.ID && s.Verb == VerbPostLaunch && s.State == StepHeld
	})
}

// correctsHook: m's step waits for a hook that a newer spec may have corrected. A restart that began under the newer
// spec, to be refreshed afterwards, does not count.
func (w *world) correctsHook(m *member) bool {
	booted := m.open.Phase != operation.Booting && m.report != nil
	return booted && m.heldByHook() && !w.began(m.open)
}
