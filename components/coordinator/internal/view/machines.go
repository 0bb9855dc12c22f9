package view

import (
	"time"

	"cadre.dev/core/policy"
)

// ToleratedUntil is when the Boot that holds a Slot is refused because p tolerates its machine no longer; zero: no
// Boot holds the Slot, or its machine is not tolerated for a while only.
func (v *View) ToleratedUntil(slot string, p policy.TCBPolicy, now time.Time) time.Time {
	a := v.Admissions[slot].Value
	if a.BootID == "" {
		return time.Time{}
	}
	return v.Judging(policy.ImagePolicy{TCB: p}).TCB.ToleratedUntil(a.Claims.TCB, now)
}

// Outlook is what Intel's early set foretells of the machine of the Boot that holds a Slot.
func (v *View) Outlook(slot string) policy.Outlook {
	a := v.Admissions[slot].Value
	if a.BootID == "" {
		return policy.Outlook{}
	}
	return a.Claims.TCB.Outlook()
}

// ToleranceEnds is the first ToleratedUntil of all Slots, in seconds since 1970; 0: there is none.
func (v *View) ToleranceEnds(p policy.TCBPolicy, now time.Time) float64 {
	return v.first(func(slot string) time.Time { return v.ToleratedUntil(slot, p, now) })
}

// MachinesFall is the first date of all Slots on which Intel's standard set is expected to call a machine out of
// date, in seconds since 1970; 0: none is foretold.
func (v *View) MachinesFall() float64 {
	return v.first(func(slot string) time.Time { return v.Outlook(slot).At })
}

// first is the first of the times that all Slots have, in seconds since 1970; 0: there is none.
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
