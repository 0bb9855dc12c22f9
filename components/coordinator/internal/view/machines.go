package view

import (
	"time"

	"cadre.dev/core/policy"
)

// ToleratedUntil returns the time from which p refuses the machine of the Boot that holds a Slot.
// It is zero when no Boot holds the Slot, or when p does not limit the machine in time.
func (v *View) ToleratedUntil(slot string, p policy.TCBPolicy, now time.Time) time.Time {
	a := v.Admissions[slot].Value
	if a.BootID == "" {
		return time.Time{}
	}
	return v.Judging(policy.ImagePolicy{TCB: p}).TCB.ToleratedUntil(a.Claims.TCB, now)
}

// Outlook returns the forecast from Intel's early set for the machine of the Boot that holds a
// Slot.
func (v *View) Outlook(slot string) policy.Outlook {
	a := v.Admissions[slot].Value
	if a.BootID == "" {
		return policy.Outlook{}
	}
	return a.Claims.TCB.Outlook()
}

// ToleranceEnds is the first ToleratedUntil of all Slots, in seconds since 1970; 0: none.
func (v *View) ToleranceEnds(p policy.TCBPolicy, now time.Time) float64 {
	return v.first(func(slot string) time.Time { return v.ToleratedUntil(slot, p, now) })
}

// MachinesOutOfDateAt is the first date on which Intel's standard set is expected to call a machine of a
// Slot out of date, in seconds since 1970; 0: no date is known.
func (v *View) MachinesOutOfDateAt() float64 {
	return v.first(func(slot string) time.Time { return v.Outlook(slot).At })
}

// first returns the earliest time of all Slots, in seconds since 1970; 0: none.
func (v *View) first(of func(slot string) time.Time) float64 {
	var first time.Time
	for slot := range v.Admissions {
		if at := of(slot); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return 0
	}
	return float64(first.Unix())
}

// MachineOf returns the machine that the Instance bound to a Slot showed last; ok is false if none is known.
func (v *View) MachineOf(slot string) (m policy.MachineRecord, ok bool) {
	m = v.Machines[slot].Value
	return m, m.Of(v.Policies[slot].Value.InstanceID)
}

// OnMachineOf lists the other Slots of a group whose Instances showed the machine of slot last,
// sorted by ordinal.
func (v *View) OnMachineOf(groupName, slot string) (slots []string) {
	own, ok := v.MachineOf(slot)
	if !ok {
		return nil
	}
	for _, s := range v.SlotsOf(groupName) {
		if m, known := v.MachineOf(s.Slot); known && s.Slot != slot && m.Machine == own.Machine {
			slots = append(slots, s.Slot)
		}
	}
	return slots
}
