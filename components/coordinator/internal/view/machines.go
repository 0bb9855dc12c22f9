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
	return p.ToleratedUntil(a.Claims.TCB, now)
}

// ToleranceEnds is the first ToleratedUntil of all Slots, in seconds since 1970; 0: there is none.
func (v *View) ToleranceEnds(p policy.TCBPolicy, now time.Time) float64 {
	var first time.Time
	for slot := range v.Admissions {
		if at := v.ToleratedUntil(slot, p, now); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return 0
	}
	return float64(first.Unix())
}
