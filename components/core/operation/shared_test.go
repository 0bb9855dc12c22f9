package operation

import (
	"maps"
	"testing"
	"time"
)

// TestARecordIsNotChangedInPlace: every reader of a record in a coordinator shares its map of times. Advance and
// CallsOff once wrote into that map, so a leader compared its record with a record that was never written.
func TestARecordIsNotChangedInPlace(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for name, f := range map[string]Facts{
		"a new leader whose clock is behind": {Term: 3, PlatformKnown: true},
		"the step is unwanted":               {Term: 1, Will: Will{Unwanted: "the slot is not outdated"}},
		"the group is paused":                {Term: 1, Will: Will{Paused: true}},
		"the CVM is gone":                    {Term: 1, PlatformKnown: true, Readiness: Readiness{Gone: true}},
		"all is well":                        {Term: 1, PlatformKnown: true, Safe: true},
	} {
		for _, phase := range []Phase{Draining, Drained, Acting, Booting, Joining, Settling} {
			op := Operation{ID: "pg.1.pg-0", Slot: "pg-0", Kind: Update, Phase: phase, Term: 1, Entered: PhaseTimes{Draining: start, phase: start}}
			before := maps.Clone(op.Entered)
			op.CallsOff(f)
			next, _ := Advance(op, f, start.Add(-time.Minute))
			next.Begun(time.Minute, start)
			if !maps.Equal(before, op.Entered) {
				t.Errorf("%s in %s: the times of the record are %v, were %v", name, phase, op.Entered, before)
			}
		}
	}
}
