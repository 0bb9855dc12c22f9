package check

import (
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// overrides is R139. A protected Slot is not taken away, but a down one is restarted on its disk
// all the same. A Slot that an operator drains is taken away by its drain or the stop of its
// group only, and a stop needs a spec that wants it (R147). The deletion of the group removes every Slot. A Slot that is excluded from rollouts is not updated, unless it exists
// for a rollout only. A Slot that is excluded from healing is not healed.
func overrides(s *state, e trace.Event) []string {
	op := s.disrupts(e)
	if op == nil || s.ending(op.Group) {
		return nil
	}
	wants := func(spec *group.Spec) bool { return spec != nil && spec.Stopped }
	if op.Kind == operation.Stop && !slices.ContainsFunc(s.specsOf(op.Group), wants) {
		return wrong("%s stops %s, and no spec has stopped = true", op.ID, op.Slot)
	}
	since, known := s.knownSince("control/protect/" + op.Slot)
	if repair := op.Kind == operation.Restart && s.mayBeDown(op.Slot); known && !repair {
		return wrong("%s takes %s away, which is protected since %s", op.ID, op.Slot, since)
	}
	if since, known = s.knownSince("control/drain/" + op.Slot); known && op.Kind != operation.Drain && op.Kind != operation.Stop {
		return wrong("%s takes %s away, which an operator drains since %s", op.ID, op.Slot, since)
	}
	if since, known = s.knownSince(excludedFrom(group.FromRollout, op.Slot)); known && op.Kind.Rolls(op.Actor) && !s.extra(op.Slot) {
		return wrong("%s updates %s, which is excluded from rollouts since %s", op.ID, op.Slot, since)
	}
	if since, known = s.knownSince(excludedFrom(group.FromHealing, op.Slot)); known && op.Actor == operation.ActorHealing {
		return wrong("%s heals %s, which is excluded from healing since %s", op.ID, op.Slot, since)
	}
	return nil
}

// excludedFrom names the switch of one kind of exclusion of a Slot.
func excludedFrom(what, slot string) string { return "control/exclude/" + slot + " " + what }

// switchesOf returns the switches that e sets or removes. An exclusion has one switch for each
// kind.
func switchesOf(e trace.Event) []string {
	name, is := switchKey(e.Key)
	switch {
	case !is:
		return nil
	case e.Excluded == nil:
		return []string{name}
	}
	out := group.ExclusionOf(e.Excluded.From).Words()
	for i, what := range out {
		out[i] = excludedFrom(what, e.Slot)
	}
	return out
}

// longestStep is how long after a decision its step may still wait for its drain.
const longestStep = 5 * time.Minute

// mayBeExcluded reports that a step that begins now may have been decided while the Slot was
// excluded from rollouts.
func (s *state) mayBeExcluded(slot string) bool {
	name := excludedFrom(group.FromRollout, slot)
	cleared, was := s.cleared[name]
	return s.switched(name) || was && s.now-cleared < longestStep
}
