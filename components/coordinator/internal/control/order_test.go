package control

import (
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// A step that asks nothing of the agent may follow a drain that was taken back before the agent
// heard of that: it goes back into service all the same, whichever coordinator it asks.
func TestAReturnToServiceStandsUntilSomethingElseIsAsked(t *testing.T) {
	t0 := time.Unix(1000, 0)
	edit := func(o view.Rec[operation.Operation], f func(*operation.Operation)) view.Rec[operation.Operation] {
		f(&o.Value)
		return o
	}
	undrained := edit(step("drain", operation.Done, t0, 40), func(op *operation.Operation) { op.Kind = operation.Drain })
	calledOff := step("update", operation.Aborted, t0, 40)
	refresh := func(p operation.Phase) view.Rec[operation.Operation] {
		return edit(step("next", p, t0, 50), func(op *operation.Operation) {
			op.Refresh, op.Entered = true, operation.PhaseTimes{operation.Booting: t0}
		})
	}
	untouched := func(p operation.Phase) view.Rec[operation.Operation] {
		return edit(step("next", p, t0, 50), func(op *operation.Operation) { op.Entered = operation.PhaseTimes{} })
	}
	for name, c := range map[string]struct {
		before, next view.Rec[operation.Operation]
		want         string
	}{
		"a refresh begins":                {undrained, refresh(operation.Recorded), "drain"},
		"a refresh waits":                 {undrained, refresh(operation.Drained), "drain"},
		"a refresh is proven":             {undrained, refresh(operation.Joining), "drain"},
		"a refresh is done":               {undrained, refresh(operation.Done), "drain"},
		"a refresh after an update":       {calledOff, refresh(operation.Drained), "update"},
		"a step is recorded":              {undrained, untouched(operation.Recorded), "drain"},
		"it is called off at once":        {undrained, untouched(operation.Aborted), "drain"},
		"it drains":                       {undrained, step("next", operation.Draining, t0, 50), "next"},
		"it was called off as it drained": {undrained, step("next", operation.Aborted, t0, 50), "next"},
		"another boot came of it":         {undrained, edit(step("next", operation.Done, t0, 50), func(op *operation.Operation) { op.Entered[operation.Booting] = t0 }), ""},
	} {
		got := desired(t, records(c.before, c.next), "boot").GetOperation()
		if got.GetOperationId() != c.want {
			t.Errorf("%s: ordered by %q, want %q", name, got.GetOperationId(), c.want)
		}
		if c.want != "" && c.want != "next" && got.GetVerb() != controlv1.Verb_VERB_CANCEL_DRAIN {
			t.Errorf("%s: ordered to %s", name, got.GetVerb())
		}
	}
}
