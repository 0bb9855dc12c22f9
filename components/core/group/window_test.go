package group

import (
	"slices"
	"testing"

	"cadre.dev/core/window"
)

func withWindow(w ...window.Window) Spec {
	s := goodSpec()
	s.UpdatePolicy.Windows = w
	return s
}

func TestR97_WindowsAreJudgedWithTheSpec(t *testing.T) {
	good := window.Window{Days: []string{"Mon-Fri"}, From: "09:00", To: "16:00", Zone: "Europe/Berlin", Except: []string{"2026-12-24"}}
	if err := Validate(withWindow(good, good)); err != nil {
		t.Error(err)
	}
	wantProblem(t, withWindow(good, window.Window{From: "09:00", To: "09:00", Zone: "UTC"}), "update_policy.window[1].to", "R97")
	wantProblem(t, withWindow(slices.Repeat([]window.Window{good}, window.MaxWindows+1)...), "update_policy.window", "R97")
	if got := problems(t, withWindow(window.Window{Days: []string{"Someday"}, From: "9", To: "25:00", Zone: "Mars/Base", Except: []string{"Christmas"}})); len(got) != 5 {
		t.Errorf("%d problems, want all five at once: %v", len(got), got)
	}
	long := good
	long.Except = slices.Repeat([]string{"2026-12-24"}, window.MaxExcept+1)
	wantProblem(t, withWindow(long), "update_policy.window[0].except", "R97")
}

// TestR97_AWindowIsNoPartOfTheRevision: a window moves no slot.
func TestR97_AWindowIsNoPartOfTheRevision(t *testing.T) {
	plain, with := goodSpec(), withWindow(window.Window{From: "09:00", To: "16:00", Zone: "UTC"})
	if plain.Revision() != with.Revision() {
		t.Error("the window changed the revision")
	}
}
