package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// strays is I25: in the end the platform has exactly the CVMs that the records bind, each as the
// bound instance. Where a CVM is missing or extra, the status of its group gives a reason.
func strays(s *state, e trace.Event) []string {
	if e.Kind != trace.Settled {
		return nil
	}
	var out []string
	for _, vm := range e.CVMs {
		if m := s.boundTo(vm); m == nil && e.Resting[s.groupOf(vm.Name)] == "" && !s.reportedUnseen(e, vm) {
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

// reportedUnseen reports whether vm was created unseen, and its group names it to operators as an orphan. A
// deleted group names no orphans, so an unseen CVM of such a group passes.
func (s *state) reportedUnseen(e trace.Event, vm trace.CVM) bool {
	name, unseen := s.unseen[vm.VMUUID]
	names := slices.Contains(e.Waiting[name].Holds, rollout.ConditionOrphans) && strings.Contains(e.Resting[name], "("+vm.VMUUID+")")
	return unseen && (names || s.over(name))
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

// nothingOpen is I26: in the end no Operation is open, unless its group gives a reason.
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

// namesReason is L10: in the end every existing group reports whether it matches its spec, and
// otherwise gives a reason.
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

// neverStuck is L11: a group that is not settled after its time waits for an operator. It names a
// reason that only an operator can end, and has given the same reason all along.
func neverStuck(s *state, e trace.Event) []string {
	if e.Kind != trace.Settled {
		return nil
	}
	var out []string
	for _, sp := range s.wanted() {
		reason := e.Resting[sp.Name]
		switch {
		case reason == "":
		case !s.waitsForOperator(sp.Name, e):
			out = append(out, fmt.Sprintf("group %s has had its time and waits for nobody: %s", sp.Name, reason))
		case e.Waiting[sp.Name].For < e.Still:
			out = append(out, fmt.Sprintf("group %s said something new %s ago: %s", sp.Name, e.Waiting[sp.Name].For, reason))
		}
	}
	return out
}

// operators are the holds that only an operator ends.
var operators = []string{
	rollout.HoldPreservedState, rollout.HoldDeleteDisks, rollout.HoldInstanceMissing, rollout.HoldUnmanagedInstance,
	rollout.HoldNotAMember, rollout.HoldQuarantined, rollout.HoldRefused, rollout.HoldInterruption, rollout.HoldWouldLoseQuorum,
	rollout.HoldVoterScaleIn, rollout.HoldActionNotAllowed, rollout.HoldNotApproved, rollout.HoldSecretNoValue, rollout.HoldBelowFloor, rollout.HoldRevoked, rollout.HoldLeaderNeedsApproval,
	rollout.HoldVersionStep, rollout.HoldIrreversible,
	rollout.HoldTransferBudget, rollout.HoldOpportunistic, rollout.ConditionOrphans,
}

// latest is how long after all faults ended a step may still fail by an earlier fault.
const latest = 5 * time.Minute

// waitsForOperator reports that only an operator's action lets the group go on. Its rollout failed by
// a fault, an operator's switch is set, or its reason is for operators. Or no healing covers a
// member whose CVM was stopped, or whose workload hangs. A failure by a deadline after all faults
// ended means that the group was stuck.
func (s *state) waitsForOperator(name string, e trace.Event) bool {
	w := e.Waiting[name]
	r := s.rollouts[w.Rollout]
	switch {
	case s.unfounded(name) || s.bereft(name, e) || s.lostLeftOver(name, e):
		return true
	case r == nil:
	case r.State == operation.FailedState && !s.failedStuck(r):
		return true
	case r.State == operation.PartitionReached && (s.allServe(name) || s.spec(name).UpdatePolicy.MaxFailed > 0) && !s.underWay(name):
		return true // an operator releases the members that are kept from the target, and decides about tolerated failures
	case r.State == operation.RolledBack && s.allServe(name) && !s.underWay(name):
		return true
	case r.State == operation.PausedState && (s.switched(freezeSwitch) || s.switched(freezeOf(name)) || s.switched("control/pause/"+name)):
		return true
	}
	ails := func(vm trace.CVM) bool {
		m := s.boundTo(vm)
		if m == nil || m.group != name || !vm.Stopped && !vm.Hung {
			return false
		}
		// Nothing heals the member within a step of the rollout, which fails by that. Nothing heals
		// it while the others wait for it to found their set.
		failed := r != nil && r.Verdict != nil && (r.Verdict.Slot == m.slot || !s.founded(name))
		return failed || !heals(s.spec(name), vm)
	}
	if slices.ContainsFunc(e.CVMs, ails) {
		return true
	}
	return slices.ContainsFunc(w.Holds, func(hold string) bool {
		switch hold {
		case rollout.HoldAfterGroup:
			return slices.ContainsFunc(s.spec(name).After, func(first string) bool {
				return e.Resting[first] != "" && s.waitsForOperator(first, e)
			})
		case rollout.HoldQuorum, rollout.HoldQuorumUnknown, rollout.HoldLeaderUnknown:
			return s.short(name, anyone) // it has lost its majority permanently
		case rollout.HoldHealStorm:
			return s.outages() > 1
		case rollout.HoldNoSource:
			// Its only member is not replaced, by request or otherwise.
			alone := s.spec(name) != nil && len(s.spec(name).Members()) == 1
			return alone || !slices.ContainsFunc(s.slots(), func(m *member) bool { return m.group == name && m.serves() })
		}
		return slices.Contains(operators, hold)
	})
}

// heals reports that healing by sp covers the fault of vm. The driver, or the check that healing
// uses, detects a hanging workload.
func heals(sp *group.Spec, vm trace.CVM) bool {
	if sp == nil || sp.AutoHealing == nil {
		return false
	}
	return vm.Stopped || group.HasDriver(*sp) || sp.AutoHealing.HealthCheck != ""
}

// allServe reports that all members of the group's spec serve.
func (s *state) allServe(name string) bool {
	sp := s.spec(name)
	return sp != nil && !slices.ContainsFunc(sp.Members(), func(slot string) bool { return !s.member(slot).serves() })
}

// underWay reports that a step of the group is open, or that an unwanted Slot is bound.
func (s *state) underWay(name string) bool {
	sp := s.spec(name)
	return slices.ContainsFunc(s.slots(), func(m *member) bool {
		return m.group == name && (len(m.open) > 0 || leftOver(sp, m))
	})
}

// leftOver reports that m, of the group of sp, is bound to a CVM and not wanted.
func leftOver(sp *group.Spec, m *member) bool {
	return m.bound != nil && m.bound.VMUUID != "" && !slices.Contains(sp.Members(), m.slot)
}

// outages counts the members of all groups that served once and do not now.
func (s *state) outages() (n int) {
	for _, m := range s.slots() {
		if s.down(m.slot) {
			n++
		}
	}
	return n
}

// unfounded reports that a member that the spec no longer wants was to found the group's set, and
// never did. The created members wait for the others. An operator has to replace them, or to have
// the others created.
func (s *state) unfounded(name string) bool {
	sp := s.spec(name)
	if sp == nil || !group.HasVoters(*sp) || s.founded(name) {
		return false
	}
	return slices.ContainsFunc(s.group(name).specs, func(d dated) bool {
		return d.spec != nil && slices.ContainsFunc(d.spec.Members(), func(slot string) bool { return !slices.Contains(sp.Members(), slot) })
	})
}

// founded reports that a member of the group served once.
func (s *state) founded(name string) bool {
	return slices.ContainsFunc(s.slots(), func(m *member) bool { return m.group == name && m.ever })
}

// lostLeftOver reports that the platform lost the CVM of an unwanted Slot. Its record stays, and no
// hold names a way out.
func (s *state) lostLeftOver(name string, e trace.Event) bool {
	sp := s.spec(name)
	return sp != nil && slices.ContainsFunc(s.slots(), func(m *member) bool {
		return m.group == name && leftOver(sp, m) && !slices.ContainsFunc(e.CVMs, func(vm trace.CVM) bool { return s.boundTo(vm) == m })
	})
}

// bereft reports that so many CVMs of the group's voters are gone that the rest are no majority,
// and never will be.
func (s *state) bereft(name string, e trace.Event) bool {
	voters := s.group(name).voters
	left := slices.DeleteFunc(slices.Clone(voters), func(slot string) bool {
		return !slices.ContainsFunc(e.CVMs, func(vm trace.CVM) bool { m := s.boundTo(vm); return m != nil && m.slot == slot })
	})
	return len(voters) > 0 && len(left) < group.Quorum(len(voters))
}

// asked is how many consecutive refusals of the platform end the retries, until an operator
// decides.
const asked = 6

// failedStuck reports that the verdict of r came by a deadline long after all faults ended. After
// the last retry of a refused step the decision is an operator's, and a later deadline adds
// nothing. Nothing heals a member whose workload hangs in its step. A bad release fails whenever its
// steps begin, after a window or another group for example: the operator has to write another one.
func (s *state) failedStuck(r *operation.Rollout) bool {
	v := r.Verdict
	if v != nil && s.bad(r) {
		return false
	}
	if v != nil && v.Cause == operation.CauseProgress {
		for _, n := range s.refusals[r.ID] {
			if n >= asked {
				return false
			}
		}
	}
	if s.failedHung[r.ID] {
		return false
	}
	late := s.healed && s.failedFrom[r.ID] > s.healedAt+latest
	return v == nil || late && (v.Cause == operation.CauseProgress || v.Cause == operation.CauseDeadline)
}

// bad reports that the operator asks for a release with which no member is ever healthy, and that a
// member was given it.
func (s *state) bad(r *operation.Rollout) bool {
	sp := s.spec(r.Group)
	if sp == nil || sp.Revision() != r.To || !slices.Contains([]string{plan.IllRelease, plan.DeadRelease}, plan.ReleaseOf(sp.Template.Compose)) {
		return false
	}
	return slices.ContainsFunc(s.slots(), func(m *member) bool {
		return m.group == r.Group && m.bound != nil && m.bound.Assigned == r.To
	})
}

// arrived is L6: where a group reports that it matches its spec, it does. Every member serves, the
// moved members run the target, and no Slot is left over.
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
