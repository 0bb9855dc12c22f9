package operate

import (
	"testing"
	"time"
)

// TestWhatWasPreparedIsNotKeptForEver: no event announces that an Operation was re-targeted.
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

// TestR62_TheClockIsSetBackAfterTheLeaseWasTaken: the new leader waits once for the calls of its
// predecessor, and not until the clock reaches the old time again.
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
