package check

import (
	"slices"
	"testing"

	"cadre.dev/simulator/trace"
)

func TestStoryBreaksNothing(t *testing.T) {
	r := story()
	if found := Run(r.t); len(found) > 0 {
		t.Errorf("finds %v:\n%s", found, r.t)
	}
}

// TestStoryWithoutOneEvent removes an event that a promise rests on, and checks which promise
// fails.
func TestStoryWithoutOneEvent(t *testing.T) {
	for name, test := range map[string]struct {
		leaveOut func(trace.Event) bool
		want     string
	}{
		"the hand-over":     {func(e trace.Event) bool { return e.Kind == trace.Led && e.Slot == "pg-1" }, "I3"},
		"the records":       {func(e trace.Event) bool { return e.Operation != nil && e.Operation.Phase == "ACTING" }, "I18"},
		"the policies":      {func(e trace.Event) bool { return e.Policy != nil }, "I9"},
		"the gate's moves":  {func(e trace.Event) bool { return e.Policy != nil }, "I5"},
		"the ends":          {func(e trace.Event) bool { return e.Operation != nil && e.Operation.Phase == "DONE" }, "I1"},
		"the bindings":      {func(e trace.Event) bool { return e.Bound != nil }, "I25"},
		"the stops":         {func(e trace.Event) bool { return e.Kind == trace.Stopped }, "I10"},
		"the second Boots":  {func(e trace.Event) bool { return e.Admission != nil && e.Admission.Generation == 2 }, "L6"},
		"the entries":       {func(e trace.Event) bool { return e.Entry != nil }, "CTL-21"},
		"the last ends":     {func(e trace.Event) bool { return e.Operation != nil && e.Slot == "pg-0" && e.Operation.Phase == "DONE" }, "I26"},
		"the first members": {func(e trace.Event) bool { return e.Kind == trace.Served && e.Boot == "boot-2" }, "L6"},
	} {
		t.Run(name, func(t *testing.T) {
			left := slices.DeleteFunc(story().t, test.leaveOut)
			if found := Run(left); !slices.ContainsFunc(found, func(v Violation) bool { return v.ID == test.want }) {
				t.Errorf("finds %v, want one of %s:\n%s", found, test.want, left)
			}
		})
	}
}
