package reports_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reports"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestASubscriberIsNotifiedOfChangedSlots: a new, changed, late or removed report is a change, and an
// unchanged one in time is not.
func TestASubscriberIsNotifiedOfChangedSlots(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := reports.New(func() time.Time { return now })
	sub := r.Subscribe()
	defer sub.Close()
	told := func(what string, want ...string) {
		t.Helper()
		var got []string
		for slot := range sub.Take() {
			got = append(got, slot)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: notified of %v, want %v", what, got, want)
		}
	}
	sequence := uint64(1)
	beat := func(healthy uint64) {
		sequence++
		r.Beat("pg-0", "boot", &controlv1.Heartbeat{Report: 1, Sequence: sequence, HealthyMs: healthy})
	}
	r.Put("pg-0", "boot", &controlv1.Report{Sequence: 1})
	told("the first report", "pg-0")
	now = now.Add(5 * time.Second)
	beat(0)
	told("a heartbeat in time")
	beat(7)
	told("it is healthy", "pg-0")
	now = now.Add(10500 * time.Millisecond)
	if got := r.Overdue(10*time.Second, 11*time.Second); !slices.Equal(got, []string{"pg-0"}) {
		t.Errorf("overdue: %v", got)
	}
	if got := r.Overdue(11*time.Second, 12*time.Second); len(got) != 0 {
		t.Errorf("overdue: %v", got)
	}
	beat(8)
	told("a heartbeat that was late", "pg-0")
	r.Farewell("pg-0", "boot")
	told("the farewell", "pg-0")
}
