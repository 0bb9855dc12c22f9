package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/policy"
)

// ConditionMachinesUpToDate is false while members run on machines that are admitted by a
// tolerance of the trust file only. It is left out otherwise.
const ConditionMachinesUpToDate = "MachinesUpToDate"

// ConditionMachinesStayUpToDate is false while Intel's early set calls machines out of date that
// are UpToDate today. It is left out otherwise.
const ConditionMachinesStayUpToDate = "MachinesStayUpToDate"

// ConditionMachinesApart is false while members of a group with `spread = "machine"` showed one machine
// more often than max_per permits. It is left out otherwise.
const ConditionMachinesApart = "MachinesApart"

// ConditionMachinesUnchanged is false for a week after an Instance showed another machine than
// before. It is left out otherwise.
const ConditionMachinesUnchanged = "MachinesUnchanged"

// machineChangeShown is how long a change of an Instance's machine is shown.
const machineChangeShown = 7 * 24 * time.Hour

// machineEnd is when the tolerance or the present status of a Slot's machine ends; zero: unknown.
type machineEnd struct {
	at   time.Time
	slot string
}

// machineEnds are the ends of the group's Slots, the earliest first.
func (p *pass) machineEnds(of func(slot string) (time.Time, bool)) (ends []machineEnd) {
	for _, s := range p.view.SlotsOf(p.name) {
		if at, found := of(s.Slot); found {
			ends = append(ends, machineEnd{at, s.Slot})
		}
	}
	slices.SortStableFunc(ends, func(a, b machineEnd) int { return a.at.Compare(b.at) })
	return ends
}

// machines is a condition about the machines with an end.
func (p *pass) machines(kind string, ends []machineEnd, line func(machineEnd) string) (group.Condition, bool) {
	lines := make([]string, len(ends))
	for i, e := range ends {
		lines[i] = line(e)
	}
	return group.Condition{Type: kind, Reason: string(policy.CodeTCBOutOfDate), Message: bounded(names.Few(lines, "; ")), Since: p.now}, len(lines) > 0
}

// tolerated names the Slots whose machines are tolerated for a while, the first to end first.
func (p *pass) tolerated() (group.Condition, bool) {
	ends := p.machineEnds(func(slot string) (time.Time, bool) {
		at := p.view.ToleratedUntil(slot, p.cfg.Images.TCB, p.now)
		return at, !at.IsZero()
	})
	return p.machines(ConditionMachinesUpToDate, ends, func(e machineEnd) string {
		return fmt.Sprintf("%s: the TCB is %s, tolerance ends in %d days (%s)",
			e.slot, p.view.Admissions[e.slot].Value.Claims.TCB.Status, int(e.at.Sub(p.now)/(24*time.Hour)), e.at.UTC().Format(time.DateOnly))
	})
}

// expectedOutOfDate names the Slots whose machines Intel's standard set is expected to call out of date.
func (p *pass) expectedOutOfDate() (group.Condition, bool) {
	ends := p.machineEnds(func(slot string) (time.Time, bool) {
		outlook := p.view.Outlook(slot)
		return outlook.At, outlook.Falls
	})
	return p.machines(ConditionMachinesStayUpToDate, ends, func(e machineEnd) string {
		early := p.view.Admissions[e.slot].Value.Claims.TCB.Early
		if e.at.IsZero() {
			return fmt.Sprintf("%s: Intel's early set (evaluation %d) calls the machine %s; the signed dates do not say when the standard set follows", e.slot, early.EvaluationNumber, early.Status)
		}
		return fmt.Sprintf("%s: will be %s on about %s (Intel's early set, evaluation %d)", e.slot, early.Status, e.at.UTC().Format(time.DateOnly), early.EvaluationNumber)
	})
}

// sharedMachines names the members that provably share a machine, although the spec spreads them.
func (p *pass) sharedMachines() (group.Condition, bool) {
	var lines []string
	on := map[string][]string{}
	if p.seen.Spec.Placement.Spread == group.SpreadMachine {
		for _, s := range p.view.SlotsOf(p.name) {
			if m, ok := p.view.MachineOf(s.Slot); ok {
				on[m.Machine] = append(on[m.Machine], s.Slot)
			}
		}
	}
	for machine, slots := range on {
		if most := max(p.seen.Spec.Placement.MaxPer, 1); len(slots) > most {
			lines = append(lines, fmt.Sprintf("%s share machine %.16s, max_per is %d: `cadre instance replace` of one of them clears this", strings.Join(slots, ", "), machine, most))
		}
	}
	slices.Sort(lines)
	return group.Condition{Type: ConditionMachinesApart, Reason: string(policy.CodeMachineShared), Message: bounded(names.Few(lines, "; ")), Since: p.now}, len(lines) > 0
}

// changedMachines names the Slots whose Instance showed another machine than before.
func (p *pass) changedMachines() (group.Condition, bool) {
	var lines []string
	for _, s := range p.view.SlotsOf(p.name) {
		if m, ok := p.view.MachineOf(s.Slot); ok && m.Before != "" && p.now.Sub(m.Since) < machineChangeShown {
			lines = append(lines, fmt.Sprintf("%s: machine %.16s since %s, %.16s before: registered again, or the CVM moved", s.Slot, m.Machine, m.Since.UTC().Format(time.DateOnly), m.Before))
		}
	}
	return group.Condition{Type: ConditionMachinesUnchanged, Reason: string(policy.CodeMachineChanged), Message: bounded(names.Few(lines, "; ")), Since: p.now}, len(lines) > 0
}
