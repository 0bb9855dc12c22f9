package table

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/figures"
)

func TestDocumentWithoutAnAimShowsNoMiss(t *testing.T) {
	f := figures.New("took", "s", "", []float64{12}, nil)
	if text := Document("", []figures.Result{{Name: "x", Figures: []figures.Figure{f}}}, time.Now()); strings.Contains(text, "(missed)") {
		t.Errorf("document:\n%s", text)
	}
}

func TestDocumentShowsMisses(t *testing.T) {
	r := figures.Result{Name: "x", Rounds: 1, Figures: []figures.Figure{figures.New("slow", "s", "<= 1", []float64{2}, map[string]float64{"b": 2, "a": 1})}}
	text := Document("", []figures.Result{r}, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	for _, want := range []string{"| `slow` | <= 1 | 2 (missed) | s | 2 | a 1, b 2 |", "2026-01-02"} {
		if !strings.Contains(text, want) {
			t.Errorf("document lacks %q:\n%s", want, text)
		}
	}
}

func TestOldFiguresStay(t *testing.T) {
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	result := func(name string, value float64) figures.Result {
		return figures.Result{Name: name, Figures: []figures.Figure{figures.New("took", "s", "", []float64{value}, nil)}}
	}
	before := Document("", []figures.Result{result("a", 1), result("b", 2), result("c", 3)}, day)
	want := Document("", []figures.Result{result("a", 1), result("b", 7), result("c", 3)}, day)
	if got := Document(before, []figures.Result{result("b", 7)}, day); got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}

func TestManySamplesAreSummarized(t *testing.T) {
	if got := samples([]float64{1, 2, 3}); got != "1, 2, 3" {
		t.Errorf("a few are %q", got)
	}
	many := make([]float64, 100)
	for i := range many {
		many[i] = float64(100 - i)
	}
	if got := samples(many); got != "100 from 1 to 100" {
		t.Errorf("many are %q", got)
	}
}
