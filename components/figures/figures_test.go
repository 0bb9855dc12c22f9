package figures

import "testing"

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
	if New("took", "s", "", []float64{12}, nil).Missed() {
		t.Error("missed without an aim")
	}
}
