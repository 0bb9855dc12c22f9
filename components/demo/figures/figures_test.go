package figures

import (
	"strings"
	"testing"
	"time"
)

func TestReached(t *testing.T) {
	for _, c := range []struct {
		aim   string
		value float64
		want  bool
	}{
		{"<= 10", 10, true}, {"<= 10", 10.1, false}, {">= 1.0", 1, true}, {">= 1.0", 0.9, false},
		{"about 3", 3, false}, {"", 0, false},
	} {
		if got := (Figure{Aim: c.aim, Value: c.value}).Reached(); got != c.want {
			t.Errorf("%v meets %q = %v, want %v", c.value, c.aim, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median of three = %v, want 2", got)
	}
	if got := Median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median of four = %v, want 2.5", got)
	}
}

func TestWithoutAnAimNothingIsMissed(t *testing.T) {
	f := New("took", "s", "", []float64{12}, nil)
	if f.Missed() {
		t.Error("missed without an aim")
	}
	if text := Document([]Result{{Name: "x", Figures: []Figure{f}}}, time.Now()); strings.Contains(text, "(missed)") {
		t.Errorf("document:\n%s", text)
	}
}

func TestDocumentShowsMisses(t *testing.T) {
	r := Result{Name: "x", Rounds: 1, Figures: []Figure{New("slow", "s", "<= 1", []float64{2}, map[string]float64{"b": 2, "a": 1})}}
	text := Document([]Result{r}, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	for _, want := range []string{"| `slow` | <= 1 | 2 (missed) | s | 2 | a 1, b 2 |", "2026-01-02"} {
		if !strings.Contains(text, want) {
			t.Errorf("document lacks %q:\n%s", want, text)
		}
	}
}
