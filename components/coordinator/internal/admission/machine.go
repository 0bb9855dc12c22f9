package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// machines are the records about machines at one try of an admission.
type machines struct {
	// own is the record of the Slot, and index its index.
	own   policy.MachineRecord
	index uint64
	// others and turn are read only where the group's placement is verified. turn is the index of
	// the group's last turn.
	others []policy.Neighbour
	turn   uint64
}

// machineRule is the part of a spec's placement that admission decides about. Validation ties verified
// to the spread by machines; the rule holds for any other spread too.
func machineRule(s group.Spec) policy.MachineRule {
	r := policy.MachineRule{Only: s.Placement.Machines}
	if s.Placement.Verified {
		r.MaxPer = max(s.Placement.MaxPer, 1)
	}
	return r
}

// machine is the keyed hash of the machine that the evidence names; "": it names none.
func (a *attempt) machine() string { return a.cfg.Root.Machine(a.claims.Machine) }

// readMachines reads the Slot's machine, and those of the group's other Slots if the placement needs
// them. The turn is read first: an admission that takes a machine after that changes the turn.
func (a *attempt) readMachines(ctx context.Context, now *admissionStatus) *refusal {
	m := &now.machines
	var err error
	if m.own, m.index, err = store.Read[policy.MachineRecord](ctx, a.store, store.MachineKey(a.slot)); bad(err) {
		return refuse(codeUnreadable, "read the slot's machine: %v", err).later()
	}
	if machineRule(a.spec).MaxPer == 0 {
		return nil
	}
	if _, m.turn, err = store.Read[policy.MachineTurn](ctx, a.store, store.MachineTurnKey(a.policy.Group)); bad(err) {
		return refuse(codeUnreadable, "read the turn of the group's machines: %v", err).later()
	}
	if m.others, err = neighbours(ctx, a.store, a.policy.Group, a.slot); err != nil {
		return refuse(codeUnreadable, "read the machines of group %s: %v", a.policy.Group, err).later()
	}
	return nil
}

// bad reports an error after which a record is unknown. A damaged record counts as absent: its Slot
// is then judged as a new one, and the next admission replaces the record.
func bad(err error) bool {
	return err != nil && !errors.Is(err, store.ErrNotFound) && len(store.RecordErrors(err)) == 0
}

// neighbours returns the other Slots of a group that are bound to an Instance.
func neighbours(ctx context.Context, s store.Store, groupName, slot string) ([]policy.Neighbour, error) {
	below := groupName + "-" + store.Below
	entries, err := s.Together(ctx, store.BootLeasePrefix+below, store.MachinesPrefix+below, store.PolicyPrefix+below)
	if err != nil {
		return nil, err
	}
	leased, shown := map[string]bool{}, map[string]policy.MachineRecord{}
	var out []policy.Neighbour
	for _, e := range entries { // sorted by key, so that the policies come last
		other := e.Key[strings.LastIndexByte(e.Key, '/')+1:]
		if owner, _, err := group.ParseSlot(other); err != nil || owner != groupName || other == slot {
			continue // web-api-0 is no Slot of web
		}
		switch {
		case strings.HasPrefix(e.Key, store.BootLeasePrefix):
			leased[other] = e.Session != ""
		case strings.HasPrefix(e.Key, store.MachinesPrefix):
			// A damaged record is an unknown machine.
			if m, err := store.Decode[policy.MachineRecord](e); err == nil {
				shown[other] = m
			}
		default:
			sp, err := store.Decode[policy.SlotPolicy](e)
			if err != nil {
				return nil, err
			}
			one := policy.Neighbour{Slot: other, Live: leased[other]}
			if shown[other].Of(sp.InstanceID) {
				one.Machine = shown[other].Machine
			}
			if sp.InstanceID != "" {
				out = append(out, one)
			}
		}
	}
	return out, nil
}

// kept reports whether this Boot passes every rule about machines: its Instance showed this machine
// before, or this Boot held the Slot before machines were recorded.
func (a *attempt) kept(now admissionStatus) bool {
	own := now.machines.own
	if own.Of(a.stated.InstanceID) {
		return own.Machine == a.machine()
	}
	return now.before.BootID == a.bootID
}

// mayRunThere decides whether the group's placement permits this Boot's machine.
func (a *attempt) mayRunThere(now admissionStatus) *refusal {
	d := policy.JudgeMachine(machineRule(a.spec), a.machine(), a.kept(now), now.machines.others)
	if d.Allowed {
		return nil
	}
	r := refuse(d.Code, "%s", d.Message)
	if d.Code == policy.CodeMachineUnknown && a.machine() != "" {
		return r.later()
	}
	return r
}

// machineOps returns the operations that record the machine of this Boot, and the decision to record
// if the Instance showed another one before. Evidence without a machine replaces no machine; where the
// placement asks for one, the record notes that this running Boot names none, so that it renews.
func (a *attempt) machineOps(now admissionStatus) (ops []store.Op, changed []policy.DecisionEntry, err error) {
	m, machine := now.machines, a.machine()
	if machine == "" && (machineRule(a.spec).MaxPer == 0 || m.own.Judged(a.stated.InstanceID)) {
		return nil, nil, nil
	}
	next, moved := m.own.Next(a.policy.Group, a.slot, a.stated.InstanceID, machine, a.admission.AttestedAt, a.self)
	if next == m.own {
		return nil, nil, nil
	}
	put, err := store.Put(store.MachineKey(a.slot), next, m.index)
	if err != nil {
		return nil, nil, err
	}
	ops = append(ops, put)
	if machine != "" && machineRule(a.spec).MaxPer > 0 {
		turn, err := store.Put(store.MachineTurnKey(a.policy.Group), policy.MachineTurn{
			Group: a.policy.Group, Slot: a.slot, BootID: a.bootID, At: a.admission.AttestedAt, By: a.self,
		}, m.turn)
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, turn)
	}
	if moved {
		changed = append(changed, policy.DecisionEntry{
			What: policy.DecidedMachine, BootID: a.bootID, InstanceID: a.stated.InstanceID, Code: policy.CodeMachineChanged,
			Message: fmt.Sprintf("the instance showed machine %s before and shows %s now: the machine was registered again, or the CVM moved",
				shortMachine(next.Before), shortMachine(machine)),
			Generation: a.admission.Generation,
		})
		a.log.Warn("the instance of a slot shows another machine", "slot", a.slot, "instance", a.stated.InstanceID,
			"code", policy.CodeMachineChanged, "before", shortMachine(next.Before), "machine", shortMachine(machine))
	}
	return ops, changed, nil
}

// shortMachine is the part of a keyed hash that people compare; "" for none.
func shortMachine(machine string) string { return machine[:min(len(machine), policy.MachinePrefix)] }
