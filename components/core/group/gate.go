package group

import (
	"fmt"
	"slices"
	"strings"
)

// Kinds of work that a gate can hold.
const (
	// GateOnCreate is the creation of a Slot's CVM, also of an extra Slot.
	GateOnCreate = "create"
	// GateOnStep is a step that takes a member away for a while: an update, a restart or a replacement,
	// of the rollout or by an operator's request. A refresh takes no member away, and is no such step.
	GateOnStep = "step"
	// GateOnRemove is the removal of one Slot. The deletion of the whole group is none.
	GateOnRemove = "remove"
	// GateOnHeal is each step of healing.
	GateOnHeal = "heal"
	// GateOnPromote is the opening of the next stage of a rollout.
	GateOnPromote = "promote"
)

// GateWork lists the kinds of work that a gate can hold.
func GateWork() []string {
	return []string{GateOnCreate, GateOnStep, GateOnRemove, GateOnHeal, GateOnPromote}
}

// Values of Gate.Per and Gate.Default.
const (
	GatePerGroup = "group"
	GatePerSlot  = "slot"
	GateOpen     = "open"
	GateClosed   = "closed"
)

// maxGates bounds the gates of a group.
const maxGates = 16

// Gate is a named switch that an operator or a program opens and closes. It is not part of
// the Revision.
type Gate struct {
	// Name of the gate, unique in the group.
	Name string `json:"name"`
	// On are the kinds of work that wait while the gate is closed; see GateWork.
	On []string `json:"on"`
	// Per is "group" (default): one setting opens or closes the gate for the whole group. With "slot" each
	// step of each Slot waits for a setting of its own, which names the step's ticket.
	Per string `json:"per,omitempty"`
	// Default is the state while no setting is given: "closed" (default) or "open". With Per "slot" it is
	// always closed.
	Default string `json:"default,omitempty"`
}

func (g *Gate) normalize() {
	fill(&g.Per, GatePerGroup)
	fill(&g.Default, GateClosed)
}

// PerSlot reports that each step needs a setting of its own.
func (g Gate) PerSlot() bool { return g.Per == GatePerSlot }

// Gate returns the gate with this name; ok is false if the spec has none.
func (s Spec) Gate(name string) (gate Gate, ok bool) {
	for _, one := range s.Gates {
		if one.Name == name {
			one.normalize()
			return one, true
		}
	}
	return Gate{}, false
}

func (v *validator) gates(s Spec) {
	if len(s.Gates) > maxGates {
		v.add("gate", "", "has %d gates, at most %d are allowed", len(s.Gates), maxGates)
	}
	work := strings.Join(GateWork(), ", ")
	seen := map[string]bool{}
	for _, one := range s.Gates {
		path := fmt.Sprintf("gate[%q]", one.Name)
		v.item(path, one.Name, seen)
		if len(one.On) == 0 {
			v.add(path+".on", "", "is empty: name the work that waits while the gate is closed: %s", work)
		}
		for i, on := range one.On {
			switch at := fmt.Sprintf("%s.on[%d]", path, i); {
			case !slices.Contains(GateWork(), on):
				v.add(at, "", "%q is unknown: use %s", on, work)
			case slices.Contains(one.On[:i], on):
				v.add(at, "", "%q stands twice: name each kind of work once", on)
			case on == GateOnPromote && one.PerSlot():
				v.add(at, "", "is %q, which is no step of a slot: use per = %q", on, GatePerGroup)
			}
		}
		if one.Per != GatePerGroup && one.Per != GatePerSlot {
			v.add(path+".per", "", "%q is unknown: use %s or %s", one.Per, GatePerGroup, GatePerSlot)
		}
		switch {
		case one.Default != GateOpen && one.Default != GateClosed:
			v.add(path+".default", "", "%q is unknown: use %s or %s", one.Default, GateClosed, GateOpen)
		case one.Default == GateOpen && one.PerSlot():
			v.add(path+".default", "", "is %s: with per = %q each step waits for its own setting; leave default out, or use per = %q", GateOpen, GatePerSlot, GatePerGroup)
		}
	}
}
