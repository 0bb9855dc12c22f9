package check

import (
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/simulator/trace"
)

// strays is I25: at rest the platform has the CVMs that the records bind and no others, each as
// the instance that is bound. Where one is missing or too many, the status of its group says
// that something is not as it should be.
func strays(s *state, e trace.Event) []string {
	if e.Kind != trace.Settled {
		return nil
	}
	var out []string
	for _, vm := range e.CVMs {
		if m := s.boundTo(vm); m == nil && e.Resting[s.groupOf(vm.Name)] == "" {
			out = append(out, wrong("the platform has CVM %s (%s), which no record binds", vm.VMUUID, vm.Name)...)
		}
	}
	for _, m := range s.slots() {
		bound := m.bound != nil && m.bound.VMUUID != ""
		if bound && e.Resting[m.group] == "" && !slices.ContainsFunc(e.CVMs, func(vm trace.CVM) bool { return s.boundTo(vm) == m }) {
			out = append(out, wrong("%s is bound to CVM %s, which the platform does not have", m.slot, m.bound.VMUUID)...)
		}
	}
	return out
}

// boundTo is the Slot that vm is bound to; nil: none.
func (s *state) boundTo(vm trace.CVM) *member {
	for _, m := range s.slots() {
		r := m.bound
		if r != nil && r.VMUUID == vm.VMUUID && (r.InstanceID == "" || vm.InstanceID == "" || r.InstanceID == vm.InstanceID) {
			return m
		}
	}
	return nil
}

// groupOf is the group of the Slot whose CVM has this name; "" where there is none.
func (s *state) groupOf(name string) string {
	for _, m := range s.slots() {
		if m.bound != nil && m.bound.PlatformName == name {
			return m.group
		}
	}
	return ""
}

// nothingOpen is I26: at rest no Operation is open, unless its group gives a reason.
func nothingOpen(s *state, e trace.Event) []string {
	if e.Kind != trace.Settled {
		return nil
	}
	var out []string
	for _, m := range s.slots() {
		for _, op := range m.open {
			if e.Resting[op.Group] == "" {
				out = append(out, fmt.Sprintf("%s of %s is still %s", op.ID, op.Slot, op.Phase))
			}
		}
	}
	return out
}

// namesReason is L10 and L11: at rest every group that there is says whether it is as its spec
// wants it, and if not, why.
func namesReason(s *state, e trace.Event) []string {
	if e.Kind != trace.Settled {
		return nil
	}
	var out []string
	for _, sp := range s.wanted() {
		if _, says := e.Resting[sp.Name]; !says {
			out = append(out, fmt.Sprintf("group %s does not say what it waits for", sp.Name))
		}
	}
	return out
}

// arrived is L6: where a group says that all is as its spec wants it, that is so: every member
// serves, and those that a rollout moves run what the spec asks for; no Slot is left over.
func arrived(s *state, e trace.Event) []string {
	if e.Kind != trace.Settled {
		return nil
	}
	var out []string
	for _, sp := range s.wanted() {
		if reason, says := e.Resting[sp.Name]; !says || reason != "" {
			continue
		}
		target := sp.Revision()
		for _, slot := range sp.Members() {
			m := s.member(slot)
			runs := m.admission != nil && m.admission.Revision == target
			switch {
			case !m.serves():
				out = append(out, fmt.Sprintf("%s does not serve, and its group gives no reason", slot))
			case !runs && inScope(sp, slot) && sp.UpdatePolicy.Type != group.Opportunistic:
				out = append(out, fmt.Sprintf("%s does not run %.12s, and its group gives no reason", slot, target))
			}
		}
		for _, m := range s.slots() {
			if m.group == sp.Name && m.bound != nil && !slices.Contains(sp.Members(), m.slot) {
				out = append(out, fmt.Sprintf("%s is left over, and its group gives no reason", m.slot))
			}
		}
	}
	return out
}

// wanted are the specs in force.
func (s *state) wanted() []*group.Spec {
	var out []*group.Spec
	for _, name := range sortedNames(s.groups) {
		if sp := s.spec(name); sp != nil {
			out = append(out, sp)
		}
	}
	return out
}
