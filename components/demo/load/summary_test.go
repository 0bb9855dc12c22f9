package load

import (
	"slices"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

func acked(id int64, start, end int, server string) Op {
	return Op{ID: id, Start: at(start), End: at(end), Server: server}
}

func TestSummarize(t *testing.T) {
	ops := []Op{
		acked(1, 0, 10, "a"),
		{ID: 2, Start: at(20), End: at(30), Error: "connection reset"},
		acked(3, 100, 510, "b"),
		acked(4, 30, 40, "a"),
		acked(5, 520, 530, "b"),
	}
	s := Summarize(ops, at(0), at(600))
	if s.Attempted != 5 || s.Acknowledged != 4 || s.Failed != 1 {
		t.Errorf("counts = %d/%d/%d, want 5/4/1", s.Attempted, s.Acknowledged, s.Failed)
	}
	if want := 470 * time.Millisecond; s.Gap != want {
		t.Errorf("gap = %v, want %v", s.Gap, want)
	}
	if want := 410 * time.Millisecond; s.Slowest != want {
		t.Errorf("slowest = %v, want %v", s.Slowest, want)
	}
	if want := []string{"a", "b"}; !slices.Equal(s.Servers, want) {
		t.Errorf("servers = %v, want %v", s.Servers, want)
	}
}

// A span that ends in silence must not look healthy.
func TestSummarizeCountsSilenceAtBothEnds(t *testing.T) {
	s := Summarize([]Op{acked(1, 390, 400, "a")}, at(0), at(1000))
	if want := 600 * time.Millisecond; s.Gap != want {
		t.Errorf("gap = %v, want %v", s.Gap, want)
	}
	if s := Summarize(nil, at(0), at(1000)); s.Gap != time.Second {
		t.Errorf("gap of silence = %v, want 1s", s.Gap)
	}
}

// A write that the old leader confirmed late is no move back to it.
func TestServersFollowTheStartOfWrites(t *testing.T) {
	s := Summarize([]Op{acked(1, 0, 50, "a"), acked(2, 10, 20, "a"), acked(3, 30, 40, "b")}, at(0), at(60))
	if want := []string{"a", "b"}; !slices.Equal(s.Servers, want) {
		t.Errorf("servers = %v, want %v", s.Servers, want)
	}
}

func TestSummarizeReportsTheTimesOfWrites(t *testing.T) {
	var ops []Op
	for n := range 200 {
		ops = append(ops, acked(int64(n), n, n+200-n, "a"))
	}
	ops = append(ops, Op{ID: 999, Start: at(0), End: at(9000), Error: "deadline exceeded"})
	s := Summarize(ops, at(0), at(300))
	for name, c := range map[string]struct{ got, want time.Duration }{
		"half": {s.P50, 100 * time.Millisecond}, "99 of 100": {s.P99, 198 * time.Millisecond}, "slowest": {s.Slowest, 200 * time.Millisecond},
	} {
		if c.got != c.want {
			t.Errorf("%s within %v, want %v", name, c.got, c.want)
		}
	}
	if s := Summarize([]Op{acked(1, 0, 7, "a")}, at(0), at(8)); s.P50 != s.Slowest || s.P99 != 7*time.Millisecond {
		t.Errorf("of one write %+v", s)
	}
	if s := Summarize(nil, at(0), at(8)); s.P50+s.P99+s.Slowest != 0 {
		t.Errorf("of none %+v", s)
	}
}
