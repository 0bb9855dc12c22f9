package check

import (
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// launched: a step that brings a member up in a group with post-launch hooks is done only once the
// Boot's agent ran them. For that step, an earlier Boot may have run them: the agent keeps the
// result of an order on its disk.
func launched(t trace.Trace) []Violation {
	var f findings
	ran := map[string]string{}   // the Boot, by Slot
	stepped := map[string]bool{} // the Operations that were open then
	walk(t, func(s *state, i int, e trace.Event) {
		if e.Kind == trace.Launched {
			ran[e.Slot] = e.Boot
			for _, op := range s.member(e.Slot).open {
				stepped[op.ID] = true
			}
		}
		op := e.Operation
		if e.Kind != trace.Committed || e.Deleted || op == nil || op.Phase != operation.Done || op.Kind == operation.Delete || op.Kind == operation.Drain || op.Way.Refreshes() || op.Way.Service != "" {
			return
		}
		m := s.member(op.Slot)
		before := s.operations[op.ID]
		if before == nil || before.Phase != operation.Joining && before.Phase != operation.Settling || m.admission == nil || ran[op.Slot] == m.admission.BootID || stepped[op.ID] {
			return
		}
		for _, sp := range s.specsOf(op.Group) {
			if sp == nil || !group.HasHook(*sp, group.PostLaunch) {
				return
			}
		}
		f.add(i, "%s is done, and no hook after the launch of %s ended", op.ID, m.admission.BootID)
	})
	return f
}
