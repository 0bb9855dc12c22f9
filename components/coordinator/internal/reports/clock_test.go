package reports_test

import (
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reports"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/raced/synctest"
)

// TestAReportIsAsOldAsItIs: a step of the wall clock does not change the age of a report. After a
// step back of a minute, the last minute's reports would otherwise look current for a minute.
func TestAReportIsAsOldAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var off time.Duration
		now := func() time.Time { return time.Now().Add(off) }
		r := reports.New(now)
		r.FollowClock()
		end := r.Connect("db-0", "boot-1")
		r.Put("db-0", "boot-1", &controlv1.Report{Sequence: 1, Term: 7})
		time.Sleep(time.Second)
		end()
		for _, set := range []time.Duration{-time.Minute, time.Hour, time.Second} {
			off = set
			got, ok := r.Of("db-0")
			if age := now().Sub(got.At); !ok || age < time.Second || age > time.Second+2*time.Second || now().Sub(got.CutAt) < 0 {
				t.Errorf("set by %s: a second old, and it says %s; cut %s ago", set, age, now().Sub(got.CutAt))
			}
			if r.Term() != 7 {
				t.Errorf("set by %s: term %d of a report that is a second old", set, r.Term())
			}
		}
		off = -time.Minute
		time.Sleep(2 * reports.LiveWithin)
		if got, _ := r.Of("db-0"); now().Sub(got.At) < 2*reports.LiveWithin || r.Term() != 0 {
			t.Errorf("it is %s old, term %d", now().Sub(got.At), r.Term())
		}
	})
}
