package rollout_test

import (
	"fmt"
	"regexp"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"pgregory.net/rapid"
)

var kindsOfWork = map[operation.Kind]string{
	operation.Create: group.GateOnCreate, operation.Delete: group.GateOnRemove,
	operation.Update: group.GateOnStep, operation.Restart: group.GateOnStep, operation.Replace: group.GateOnStep,
}

// gated checks R150 for a step that begins, or makes its first call: each gate on such work is open, and a gate per
// Slot is open for the ticket of this step.
func (k *checker) gated(did string, op operation.Operation) {
	work := kindsOfWork[op.Kind]
	if op.Actor == operation.ActorHealing {
		work = group.GateOnHeal
	}
	if k.c.deleting != nil || op.Way.Refreshes() {
		return
	}
	for _, gate := range k.c.spec.Gates {
		if !slices.Contains(gate.On, work) {
			continue
		}
		scope := gate.Name
		if gate.PerSlot() {
			scope += "/" + op.Slot
		}
		setting := k.c.gates[scope]
		if setting != nil && !setting.Until.IsZero() && !k.c.clock().Before(setting.Until) {
			setting = nil
		}
		open := gate.Default == group.GateOpen
		if setting != nil {
			open = setting.State == group.GateOpen && (!gate.PerSlot() || setting.Ticket == op.Ticket && op.Ticket != "")
		}
		if !open {
			k.broke("R150: %s of %s, and gate %s is closed: %+v", did, op.ID, gate.Name, setting)
		}
	}
}

// ticketed checks that no two steps have one ticket.
func (k *checker) ticketed(op operation.Operation) {
	if op.Ticket == "" {
		return
	}
	key := fmt.Sprint("ticket ", op.Slot, op.Ticket)
	if k.effects[key]++; k.effects[key] > 1 {
		k.broke("R150: %s has the ticket %s of an earlier step", op.ID, op.Ticket)
	}
}

// speak records an operator's setting of a gate: for a Slot with the ticket in the last plan.
func (s *story) speak(state, gate, slot, length string) error {
	scope, ticket := gate, ""
	if slot != "" {
		scope += "/" + slot
		if i := slices.IndexFunc(s.c.plan.Actions, func(a rollout.Action) bool { return a.Slot == slot }); i >= 0 {
			ticket = s.c.plan.Actions[i].Ticket
		}
	}
	err := s.override(&s.c.gates, scope, length, "the balancer says so")
	s.c.gates[scope].State, s.c.gates[scope].Ticket = state, ticket
	return err
}

// drawGates gives some runs of the property test gates.
func (s *story) drawGates(t *rapid.T) {
	for _, line := range []string{"operator sets gate alarm on create step remove per group default open", "operator sets gate balancer on step heal per slot default closed"} {
		if rapid.IntRange(0, 3).Draw(t, "gate") == 0 {
			s.one(t, line)
		}
	}
}

// tickets are left out of recorded stories, since they follow from digests of Revisions.
var tickets = regexp.MustCompile(`--ticket [0-9a-f]{16}`)
