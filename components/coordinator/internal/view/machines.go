package view

import (
	"time"

	"cadre.dev/core/policy"
)

// ToleranceEnds is when the first Boot that holds a Slot is refused because p tolerates its
// machine no longer, in seconds since 1970; 0: no machine is tolerated for a while only.
func (v *View) ToleranceEnds(p policy.TCBPolicy, now time.Time) float64 {
	var first time.Time
	for _, a := range v.Admissions {
		at := p.ToleratedUntil(a.Value.Claims.TCB, now)
		if a.Value.BootID != "" && !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return 0
	}
	return float64(first.Unix())
}
