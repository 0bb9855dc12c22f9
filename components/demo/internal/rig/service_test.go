package rig

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/demo/load"
	"cadre.dev/figures"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		share  float64
		want   float64
	}{
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 3, 2, 1}, 0.5, 2},
		{[]float64{4, 3, 2, 1}, 0.99, 4},
	} {
		if got := quantile(c.values, c.share); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.share, got, c.want)
		}
	}
}

// moved is a hand-over that had pooled clients wait for stall and failed some of their writes.
func moved(stall time.Duration, failed int) handover {
	took := time.Now()
	return handover{
		switched: switched{leader: "postgres-1", took: took, reached: took.Add(200 * time.Millisecond)},
		ways:     map[load.Way]load.Summary{load.Pooled: {Attempted: 100, Failed: failed, Gap: stall}},
	}
}

func TestHandoverFigures(t *testing.T) {
	if got := handoverFigures(nil); got != nil {
		t.Errorf("without a hand-over there are figures: %v", got)
	}
	got := map[string]figures.Figure{}
	for _, f := range handoverFigures([]handover{moved(300*time.Millisecond, 0), moved(2*time.Second, 3), moved(400*time.Millisecond, 0)}) {
		got[f.Name] = f
	}
	for name, want := range map[string]struct {
		value   float64
		reached bool
	}{
		"role_switch_ms_p50":           {200, true},
		"pooled_failed_in_3_handovers": {3, false},
		"pooled_stall_ms_p50":          {400, true},
		"pooled_stall_ms_p99":          {2000, false},
	} {
		if f, is := got[name]; !is || f.Value != want.value || f.Reached() != want.reached {
			t.Errorf("%s: %+v, want %v, reached %t", name, f, want.value, want.reached)
		}
	}
}

// TestNoRoleSwitchIsNegative: where the route answered first it counts as 0, and as such.
func TestNoRoleSwitchIsNegative(t *testing.T) {
	early := moved(300*time.Millisecond, 0)
	early.reached = early.took.Add(-time.Second)
	for _, c := range []struct {
		seen         []handover
		value, first float64
	}{
		{[]handover{moved(time.Second, 0)}, 200, 0},
		{[]handover{early, moved(time.Second, 0), early}, 0, 2},
	} {
		if f := handoverFigures(c.seen)[0]; f.Value != c.value || f.Detail["route_was_first"] != c.first || slices.Min(f.Samples) < 0 {
			t.Errorf("%+v, want %v and %v", f, c.value, c.first)
		}
	}
}

func TestWatchersFindTheNewLeader(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	judged := false
	w := &watchers{took: map[string]time.Time{}}
	note := func(what func()) { w.note(what, func() { judged = true }) }
	note(func() { w.over = &answered{"postgres-2", at(3)} })
	if judged {
		t.Error("the route's answer alone was enough")
	}
	note(func() { w.took["postgres-1"] = at(1) })
	if judged {
		t.Error("another member's answer was taken for the new leader's")
	}
	note(func() { w.took["postgres-2"] = at(2) })
	if !judged || w.seen.leader != "postgres-2" || w.seen.reached.Sub(w.seen.took) != time.Second {
		t.Errorf("judged %t, %+v", judged, w.seen)
	}
}
