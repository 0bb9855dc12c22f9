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

// TestAServiceIsRestartedByTheBootThatStays: it is the one that obeys. A Boot that came by
// itself has started all of its services anew, and none is ended once more.
func TestAServiceIsRestartedByTheBootThatStays(t *testing.T) {
	t0 := time.Unix(1000, 0)
	const drain, restart, launch = controlv1.Verb_VERB_DRAIN, controlv1.Verb_VERB_RESTART_SERVICE, controlv1.Verb_VERB_POST_LAUNCH
	for phase, want := range map[operation.Phase]struct{ stays, next controlv1.Verb }{
		operation.Drained:  {drain, drain},
		operation.Booting:  {restart, launch},
		operation.Joining:  {launch, launch},
		operation.Settling: {launch, launch},
		operation.Failed:   {controlv1.Verb_VERB_CANCEL_DRAIN, controlv1.Verb_VERB_CANCEL_DRAIN},
	} {
		for _, skipDrain := range []bool{false, true} {
			if skipDrain && (phase == operation.Drained || phase == operation.Failed) {
				continue // nobody was drained
			}
			op := step("op", phase, t0, 20)
			op.Value.Kind, op.Value.Service, op.Value.SkipDrain = operation.Restart, "db", skipDrain
			op.Value.Entered[operation.Booting], op.Value.HealthyDeadline = t0, t0.Add(time.Minute)
			for boot, verb := range map[string]controlv1.Verb{"boot": want.stays, "next": want.next} {
				got := desired(t, records(op), boot).GetOperation()
				if got.GetVerb() != verb || (got.GetService() == "db") != (verb == restart) {
					t.Errorf("%s, without a drain %t: %s is asked for %s of %q, want %s", phase, skipDrain, boot, got.GetVerb(), got.GetService(), verb)
				}
				if verb != drain && phase != operation.Failed && got.GetLimit().AsDuration() != time.Minute {
					t.Errorf("%s: %s has %s for it, want a minute", phase, boot, got.GetLimit().AsDuration())
				}
			}
		}
	}
}
