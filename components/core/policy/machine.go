package policy

import (
	"slices"
	"strings"
	"time"

	"cadre.dev/core/names"
)

const (
	// MachineDigits is the length of a machine's keyed hash in hex digits, and MachinePrefix the
	// shortest part of it that names a machine in a spec.
	MachineDigits = 64
	MachinePrefix = 16
)

// MachineRecord is the record at machines/<slot>: the machine that the Slot's Instance showed in its
// last genuine evidence. It stays when the Boot ends, since a CVM has its disk on that machine. It
// counts while the Slot is bound to the same Instance.
type MachineRecord struct {
	Group      string `json:"group"`
	Slot       string `json:"slot"`
	InstanceID string `json:"instance_id"`
	// Machine is the keyed hash of the machine's name, 64 lower-case hex digits. The key follows from
	// the cluster ID, so that the record identifies no hardware and compares with no other cluster's.
	// Empty: the evidence of a running Boot names no machine, and its group's placement asks for one.
	Machine string `json:"machine"`
	// Since is when the Instance first showed it.
	Since time.Time `json:"since"`
	// Before is the machine that the same Instance showed until Since; empty: none.
	Before string `json:"before,omitempty"`
	By     string `json:"by"`
}

// Of reports whether r is about that Instance.
func (r MachineRecord) Of(instanceID string) bool {
	return instanceID != "" && r.InstanceID == instanceID && r.Machine != ""
}

// Judged reports whether evidence of that Instance was judged under r's group, with a machine or without.
func (r MachineRecord) Judged(instanceID string) bool {
	return instanceID != "" && r.InstanceID == instanceID
}

// Next is the record after the Instance showed machine at a moment. changed reports that the same
// Instance showed another machine before: the machine was registered again, or the CVM moved.
func (r MachineRecord) Next(group, slot, instanceID, machine string, at time.Time, by string) (_ MachineRecord, changed bool) {
	next := MachineRecord{Group: group, Slot: slot, InstanceID: instanceID, Machine: machine, Since: at.UTC(), By: by}
	switch {
	case !r.Of(instanceID):
		return next, false
	case r.Machine == machine:
		return r, false
	}
	next.Before = r.Machine
	return next, true
}

// MachineTurn is the record at machine-turns/<group>: the last admission that took a machine for a
// Slot of a group with placement.verified. Each such admission writes it by check-and-set, so that
// of two at the same time the second judges again.
type MachineTurn struct {
	Group  string    `json:"group"`
	Slot   string    `json:"slot"`
	BootID string    `json:"boot_id"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
}

// MachineRule is the part of a group's placement that admission decides about. Its zero value
// permits every machine.
type MachineRule struct {
	// MaxPer bounds the members on one machine; 0: no bound.
	MaxPer int
	// Only are the permitted machines, by the first digits of their keyed hashes; empty: every one.
	Only []string
}

// Applies reports whether the rule can refuse a machine.
func (r MachineRule) Applies() bool { return r.MaxPer > 0 || len(r.Only) > 0 }

// Neighbour is another Slot of the group.
type Neighbour struct {
	Slot string
	// Machine of the Slot's bound Instance; empty: not known.
	Machine string
	// Live: a Boot holds the Slot's lease.
	Live bool
}

// JudgeMachine decides whether a Boot may hold a Slot on a machine, by the keyed hash; empty: its
// evidence names none. kept: the Slot's Instance has shown this machine before, or this Boot holds the
// Slot already, without a record of another machine. Such a Boot passes, so that no change of the rule
// or of another member throws it out.
//
// A neighbour counts by its last evidence, whether or not it is alive: its CVM starts there again.
// A live neighbour of an unknown machine could run on this one, so that it must attest first.
func JudgeMachine(r MachineRule, machine string, kept bool, others []Neighbour) Decision {
	switch {
	case !r.Applies(), kept:
		return Decision{Allowed: true}
	case machine == "":
		return deny(CodeMachineUnknown, "the evidence names no machine, and the group's placement needs it: run the instance on a machine whose PCK certificate has a platform instance or a PPID")
	case len(r.Only) > 0 && !slices.ContainsFunc(r.Only, func(start string) bool { return len(start) >= MachinePrefix && strings.HasPrefix(machine, start) }):
		return deny(CodeMachineNotListed, "machine %s is not in placement.machines: add it there, or replace the instance on a listed machine", machine)
	case r.MaxPer <= 0:
		return Decision{Allowed: true}
	}
	var there, unknown []string
	for _, o := range others {
		switch {
		case o.Machine == machine:
			there = append(there, o.Slot)
		case o.Machine == "" && o.Live:
			unknown = append(unknown, o.Slot)
		}
	}
	if len(there) >= r.MaxPer {
		return deny(CodeMachineShared, "machine %.16s has %s already, placement.max_per is %d: replace the instance on another machine, delete the other member, or raise max_per", machine, few(there), r.MaxPer)
	}
	// Every unknown one could be there.
	if len(there)+len(unknown) >= r.MaxPer {
		return deny(CodeMachineUnknown, "the machine of %s is not recorded yet: its agent attests again within minutes; if its evidence names no machine, replace it", few(unknown))
	}
	return Decision{Allowed: true}
}

// few names some Slots, in their order.
func few(slots []string) string {
	slices.Sort(slots)
	return names.Few(slots, ", ")
}
