package reports_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reports"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestCTL06_TheTermIsWhatMostAgentsSaw: the watermark of most agents reveals a restore, and one
// lying agent with a higher value stops nothing.
func TestCTL06_TheTermIsWhatMostAgentsSaw(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		terms []uint64
		want  uint64
	}{
		"no agent reports":        {nil, 0},
		"one":                     {[]uint64{7}, 7},
		"two agree":               {[]uint64{7, 7}, 7},
		"two differ":              {[]uint64{7, 6}, 6},
		"all of three":            {[]uint64{7, 7, 7}, 7},
		"one of three is behind":  {[]uint64{7, 2, 7}, 7},
		"one of three lies":       {[]uint64{7, math.MaxUint64, 7}, 7},
		"half of four lie":        {[]uint64{9, 9, 7, 7}, 7},
		"three of four are ahead": {[]uint64{9, 2, 9, 9}, 9},
	} {
		r := reports.New(func() time.Time { return now })
		for i, term := range c.terms {
			r.Put(fmt.Sprintf("pg-%d", i), "b007", &controlv1.Report{Sequence: 1, Term: term, State: term})
		}
		if got := r.HighWater(); got.Most != (reports.Watermark{Term: c.want, State: c.want}) || got.Agents != len(c.terms) || len(c.terms) > 0 && got.Any.State != slices.Max(c.terms) {
			t.Errorf("%s: highWater %+v, want %d", name, got, c.want)
		}
		if got := r.Term(); got != c.want {
			t.Errorf("%s: term %d, want %d", name, got, c.want)
		}
	}
}

// TestTermOfTheSilentDoesNotCount: a revoked lying agent does not report any more.
func TestTermOfTheSilentDoesNotCount(t *testing.T) {
	now := time.Now()
	r := reports.New(func() time.Time { return now })
	r.Put("pg-0", "b007", &controlv1.Report{Sequence: 1, Term: 99})
	if got := r.Term(); got != 99 {
		t.Errorf("term %d, want 99", got)
	}
	now = now.Add(reports.LiveWithin + time.Second)
	if got := r.Term(); got != 0 {
		t.Errorf("term %d of a silent agent", got)
	}
}

// TestWatermarksOfFormerHoldersCount: after the records went back only such Boots know it.
// Each Slot has one value, and a Boot that holds the Slot replaces it.
func TestWatermarksOfFormerHoldersCount(t *testing.T) {
	now := time.Now()
	r := reports.New(func() time.Time { return now })
	for i := range 3 {
		r.NoteWatermark(fmt.Sprintf("pg-%d", i), &controlv1.Report{Term: 2, State: 13})
	}
	now = now.Add(10 * time.Minute) // the Boot reports it once
	if got := r.HighWater(); got.Agents != 3 || got.Most != (reports.Watermark{Term: 2, State: 13}) {
		t.Errorf("%+v", got)
	}
	for i := range 2 {
		r.Put(fmt.Sprintf("pg-%d", i), "b007", &controlv1.Report{Sequence: 1, Term: 3, State: 14})
	}
	if got := r.HighWater(); got.Agents != 3 || got.Most != (reports.Watermark{Term: 3, State: 14}) {
		t.Errorf("after two were admitted: %+v", got)
	}
}

// TestAHeartbeatHoldsTheReportThatItNames: it confirms no other report.
func TestAHeartbeatHoldsTheReportThatItNames(t *testing.T) {
	now := time.Now()
	r := reports.New(func() time.Time { return now })
	defer r.Connect("pg-0", "b007")()
	beat := func(sequence, of, healthy uint64) *controlv1.Report {
		return r.Beat("pg-0", "b007", &controlv1.Heartbeat{Sequence: sequence, Report: of, HealthyMs: healthy})
	}
	if beat(1, 1, 0) != nil {
		t.Error("a heartbeat of a report that never came is taken")
	}
	r.Put("pg-0", "b007", &controlv1.Report{Sequence: 4, Term: 7})
	now = now.Add(reports.LiveWithin / 2)
	changed := r.Changed()
	if got := beat(6, 4, 0); got.GetTerm() != 7 || !r.Live("pg-0", "b007") {
		t.Errorf("held %v", got)
	}
	now = now.Add(reports.LiveWithin)
	if !r.Live("pg-0", "b007") || r.HighWater().Agents != 1 {
		t.Error("a heartbeat does not count as a sign of life")
	}
	select {
	case <-changed:
		t.Error("nothing changed, and a plan is asked for")
	default:
	}
	beat(7, 4, 1500)
	select {
	case <-changed:
	default:
		t.Error("it became healthy, and no plan is asked for")
	}
	if got, _ := r.Of("pg-0"); got.HealthyFor != 1500*time.Millisecond || got.Observed().HealthyFor != got.HealthyFor || got.Sequence != 7 {
		t.Errorf("%+v", got)
	}
	beat(5, 4, 0) // overtaken
	if got, _ := r.Of("pg-0"); got.Sequence != 7 || got.HealthyFor == 0 {
		t.Errorf("after an old heartbeat: %+v", got)
	}
	if r.Put("pg-0", "b007", &controlv1.Report{Sequence: 6}) {
		t.Error("a report from before the last heartbeat is taken")
	}
	if r.Beat("pg-0", "next", &controlv1.Heartbeat{Sequence: 9, Report: 4}) != nil {
		t.Error("another boot's heartbeat is taken")
	}
	beat(8, 4, math.MaxUint64)
	if got, _ := r.Of("pg-0"); got.HealthyFor <= 0 {
		t.Errorf("healthy for %v", got.HealthyFor)
	}
}
