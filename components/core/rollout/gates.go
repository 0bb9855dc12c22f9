package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A gate of the spec holds kinds of work while it is closed (R150). A setting is an operator's record about a gate. A
// gate per Slot is open for the one step whose ticket its setting names.

// gateWork returns the kind of work that c is for a gate; "": no gate holds c.
func gateWork(c candidate) string {
	switch {
	case c.kind == operation.Drain || c.kind == operation.Stop:
		return ""
	case c.actor == operation.ActorHealing:
		return group.GateOnHeal
	case c.kind == operation.Create:
		return group.GateOnCreate
	case c.kind == operation.Delete:
		return group.GateOnRemove
	}
	return group.GateOnStep
}

// gatesOf returns the gates of the spec that c passes.
func (w *world) gatesOf(c candidate) (gates []group.Gate) {
	work := gateWork(c)
	if work == "" || c.refresh || c.left || w.ending() {
		return nil
	}
	for _, gate := range w.spec.Gates {
		if slices.Contains(gate.On, work) {
			gates = append(gates, gate)
		}
	}
	return gates
}

// ticketOf returns the ticket of c, if a gate per Slot holds such work. The ticket stays the same until the step is
// recorded, and no later step has the same ticket: each step is the rollout's last one of the Slot, the next repair of one
// outage, or answers its own request. A broken member may boot again and again, so its Boot does not count.
func (w *world) ticketOf(c candidate) string {
	if !slices.ContainsFunc(w.gatesOf(c), group.Gate.PerSlot) {
		return ""
	}
	m, boot, rollout, heals := c.m, "", "", ""
	if m.seen.Admission != nil {
		boot = m.seen.Admission.BootID
	}
	request := ""
	switch c.actor {
	case operation.ActorOperator:
		if m.request != nil {
			request = m.request.ID
		}
	case operation.ActorHealing:
		boot = m.record.UnavailableSince.UTC().Format(time.RFC3339Nano)
		if n := len(m.healed); n > 0 {
			heals = m.healed[n-1].ID
		}
	case operation.ActorRollout, operation.ActorScaling, "":
		rollout = w.rollout.ID
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{m.slot, string(c.kind), c.to, string(c.actor), c.service, request, rollout, heals,
		boot, m.record.VMUUID, m.record.InstanceID, fmt.Sprint(m.record.Incarnation, m.lastOrder)}, "\n")))
	return hex.EncodeToString(sum[:8])
}

// holdsOfGates holds work whose gate is closed. A recorded step has its ticket in its record.
func (w *world) holdsOfGates(c candidate, l evaluation) []Hold {
	gates := w.gatesOf(c)
	if len(gates) == 0 {
		return nil
	}
	ticket := ""
	if l.op != nil {
		ticket = l.op.Ticket
	} else {
		ticket = w.ticketOf(c)
	}
	var holds []Hold
	for _, gate := range gates {
		if h, closed := w.heldByGate(gate, c.m.slot, ticket); closed {
			holds = append(holds, h)
		}
	}
	return holds
}

// heldByGate is the Hold of a gate; closed is false if the gate is open for the step.
func (w *world) heldByGate(gate group.Gate, slot, ticket string) (h Hold, closed bool) {
	name, flags := w.spec.Name+"/"+gate.Name, " --reason REASON"
	scope := gate.Name
	if gate.PerSlot() {
		scope += "/" + slot
		flags = fmt.Sprintf(" --slot %s --ticket %s", slot, ticket) + flags
		name += " for this step of " + slot
	}
	open := "; to open it: cadre gate open " + w.spec.Name + "/" + gate.Name + flags
	setting := w.obs.Gates[scope]
	switch {
	case !setting.stands(w.now):
		if gate.Default == group.GateOpen {
			return Hold{}, false
		}
		return hold(HoldGateClosed, "gate %s is closed, and no operator has opened it%s", name, open), true
	case setting.State == group.GateOpen && gate.PerSlot() && setting.Ticket != ticket:
		return hold(HoldGateClosed, "gate %s is closed: its last setting%s; that setting names another step%s", name, setting.text(), open), true
	case setting.State == group.GateOpen:
		return Hold{}, false
	case setting.State != group.GateClosed:
		return hold(HoldGateClosed, "gate %s is closed: its record control/gate/%s/%s has no readable state%s", name, w.spec.Name, scope, open), true
	}
	return setting.hold(HoldGateClosed, "gate "+name+" is closed by an operator%s"+open), true
}

// gatesStop returns why a gate calls op off; "": no gate does. A step that has acted is finished.
func (w *world) gatesStop(m *member, op operation.Operation) string {
	if op.Decided() || op.Touched() {
		return ""
	}
	return firstMessage(w.holdsOfGates(m.again(op), evaluation{op: &op}))
}
