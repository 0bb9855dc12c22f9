package check

import (
	"maps"
	"slices"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/simulator/trace"
)

// gone: a group that an operator deleted leaves nothing. When its spec goes, it has no CVM, no
// record of its Slots, no policy that admits a Boot of it, and no open Operation. Exempt are CVMs
// that the deletion keeps, and a CVM that no coordinator could see. None of these appears before
// the group is made again.
func gone(t trace.Trace) []Violation {
	var f findings
	cvms := map[string]trace.Event{} // created CVMs, by id
	walk(t, func(s *state, i int, e trace.Event) {
		switch {
		case e.Kind == trace.Effected && e.Call.Verb == cloud.Create:
			cvms[e.Call.VMUUID] = e
			if s.over(e.Group) {
				f.add(i, "call %d makes a CVM of %s, whose group is deleted", e.Call.ID, e.Slot)
			}
		case e.Kind == trace.Effected && e.Call.Verb == cloud.Delete:
			delete(cvms, e.Call.VMUUID)
		case e.Kind == trace.Lost:
			maps.DeleteFunc(cvms, func(_ string, made trace.Event) bool { return made.Slot == e.Slot })
		case e.Kind == trace.Committed && e.Spec != nil && e.Deleted:
			for _, what := range s.leftOf(e.Group, cvms) {
				f.add(i, "group %s goes, and %s", e.Group, what)
			}
		case e.Kind == trace.Committed && !e.Deleted && s.over(e.Group) && (e.Bound != nil || e.Policy != nil || e.Operation != nil && !e.Operation.Phase.Ended()):
			f.add(i, "%s is written of group %s, which is deleted", e.Key, e.Group)
		}
	})
	return f
}

// over reports that the group existed and does not now.
func (s *state) over(name string) bool {
	return len(s.group(name).specs) > 0 && s.spec(name) == nil
}

// leftOf lists the remains of a group.
func (s *state) leftOf(name string, cvms map[string]trace.Event) (out []string) {
	keeps := s.endings[name] != nil && s.endings[name].KeepCVMs
	for _, id := range slices.Sorted(maps.Keys(cvms)) {
		if made := cvms[id]; made.Group == name && !keeps && s.unseen[id] == "" {
			out = append(out, "CVM "+id+" of "+made.Slot+" is left")
		}
	}
	for _, m := range s.slots() {
		if m.group != name {
			continue
		}
		if m.bound != nil {
			out = append(out, "the record of "+m.slot+" is left")
		}
		if m.policy != nil {
			out = append(out, "the policy of "+m.slot+" is left")
		}
		for _, op := range m.open {
			out = append(out, op.ID+" is open")
		}
	}
	return out
}
