package operate

import (
	"testing"
	"time"
)

// TestWhatWasPreparedIsNotKeptForEver: nobody says when an Operation was re-targeted.
func TestWhatWasPreparedIsNotKeptForEver(t *testing.T) {
	now := time.Now()
	o := New(Config{Now: func() time.Time { return now }})
	o.prepared["old"], o.prepared["young"] = prepared{at: now.Add(-provisionedFor)}, prepared{at: now.Add(-time.Second)}
	if _, ok := o.preparedFor("another"); ok || len(o.prepared) != 1 {
		t.Errorf("found %t, kept %d", ok, len(o.prepared))
	}
	if _, ok := o.preparedFor("young"); !ok {
		t.Error("what is young is prepared anew")
	}
}

// TestR62_TheClockIsSetBackAfterTheLeaseWasTaken: what the leader before called for is waited for once more, and
// not until the clock is there again.
func TestR62_TheClockIsSetBackAfterTheLeaseWasTaken(t *testing.T) {
	now := time.Now()
	o := New(Config{Now: func() time.Time { return now }})
	o.Took(now.Add(time.Hour))
	for _, later := range []time.Duration{0, time.Second, time.Minute} {
		if got := o.tookAt(now.Add(later)); !got.Equal(now) {
			t.Errorf("%s later it was taken %s ago", later, now.Add(later).Sub(got))
		}
	}
}
