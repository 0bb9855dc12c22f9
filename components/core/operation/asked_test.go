package operation

import (
	"slices"
	"testing"
	"time"
)

// TestR81_EachBootIsAskedForItsOwn: the drained Boot stays drained until it is gone, and the next Boot returns to
// service. A service restart keeps the Boot. A Boot that came automatically has started the service already.
func TestR81_EachBootIsAskedForItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		op            Operation
		drained, next Verb
	}{
		"while it drains":                      {Operation{Phase: Draining}, VerbDrain, VerbDrain},
		"after the call":                       {Operation{Phase: Booting}, VerbDrain, VerbPostLaunch},
		"after the call, with no drain before": {Operation{Phase: Booting, Way: Way{SkipDrain: true}}, "", VerbPostLaunch},
		"once the next one is in":              {Operation{Phase: Joining}, VerbPostLaunch, VerbPostLaunch},
		"a service restarts":                   {Operation{Phase: Booting, Way: Way{Service: "db"}}, VerbRestartService, VerbPostLaunch},
		"a service was restarted":              {Operation{Phase: Joining, Way: Way{Service: "db"}}, VerbPostLaunch, VerbPostLaunch},
		"called off":                           {Operation{Phase: Aborted, Entered: PhaseTimes{Draining: start}}, VerbCancelDrain, VerbCancelDrain},
		"done":                                 {Operation{Phase: Done}, "", ""},
	} {
		c.op.ID, c.op.Kind, c.op.Before.BootID = "op", Update, "drained"
		for boot, want := range map[string]Verb{"drained": c.drained, "next": c.next} {
			got, ok := OrderFor(slices.Values([]Operation{c.op}), boot)
			if got.Verb != want || ok != (want != "") || (got.Service != "") != (want == VerbRestartService) {
				t.Errorf("%s: the boot that was %s is asked for %q of %q, %t; want %q", name, boot, got.Verb, got.Service, ok, want)
			}
		}
		// If the CVM's Boot was unknown, every Boot is the next Boot.
		c.op.Before.BootID = ""
		if got, _ := OrderFor(slices.Values([]Operation{c.op}), ""); got.Verb != c.next {
			t.Errorf("%s: a boot without a name is asked for %q, want %q", name, got.Verb, c.next)
		}
	}
}

// TestAnOrderStandsUntilSomethingElseIsAsked: an agent that missed the return to service still gets the order.
func TestAnOrderStandsUntilSomethingElseIsAsked(t *testing.T) {
	calledOff := Operation{ID: "before", Phase: Aborted, Entered: PhaseTimes{Draining: start}}
	for name, c := range map[string]struct {
		next Operation
		want string
	}{
		"it is called off":      {Operation{Phase: Aborted}, "before"},
		"a refresh is done":     {Operation{Phase: Done, Way: Way{Mode: ModeRefresh}}, "before"},
		"it drains":             {Operation{Phase: Draining}, "next"},
		"another boot was told": {Operation{Phase: Done, Entered: PhaseTimes{Booting: start}}, ""},
	} {
		c.next.ID = "next"
		if got, _ := OrderFor(slices.Values([]Operation{c.next, calledOff}), "boot"); got.Operation != c.want {
			t.Errorf("%s: ordered by %q, want %q", name, got.Operation, c.want)
		}
	}
	if got, ok := OrderFor(slices.Values([]Operation(nil)), "boot"); ok {
		t.Errorf("no operation asks for %+v", got)
	}
}

// TestAnOrderTellsHowLongItMayTake: from the time when its deadline was set, if recorded.
func TestAnOrderTellsHowLongItMayTake(t *testing.T) {
	op := Operation{
		ID: "op", Kind: Update, Phase: Drained, Times: Times{DrainBy: start.Add(10 * time.Minute), HealthyBy: start.Add(time.Hour)},
		Entered: PhaseTimes{Draining: start, Drained: start.Add(time.Minute), Booting: start.Add(20 * time.Minute)},
	}
	for phase, want := range map[Phase]time.Duration{Drained: 10 * time.Minute, Settling: 40 * time.Minute, Aborted: 0} {
		op.Phase = phase
		if got, _ := CurrentOrder(op); got.Limit != want {
			t.Errorf("%s: %s, want %s", phase, got.Limit, want)
		}
	}
	op.Phase, op.Entered = Settling, nil
	if got, _ := CurrentOrder(op); got.Limit != 0 || got.Deadline.IsZero() {
		t.Errorf("with no beginning: %+v", got)
	}
}

// TestR92_ACalledOffRequestSaysHowToRepeatIt: the Operation answers its request. Only its reason says why it was called
// off and how to repeat the request.
func TestR92_ACalledOffRequestSaysHowToRepeatIt(t *testing.T) {
	frozen := "called off before acting: frozen by an operator (ann): we look into it"
	for name, c := range map[string]struct {
		with func(op *Operation)
		want string
	}{
		"a restart":    {func(op *Operation) { op.Request.ID = "r" }, frozen + "; ask again: cadre instance restart db-1"},
		"of a service": {func(op *Operation) { op.Request.ID, op.Way.Service = "r", "db" }, frozen + "; ask again: cadre instance restart db-1 --service db"},
		"not asked":    {func(*Operation) {}, frozen},
	} {
		op, now := to(t, Restart, Draining)
		op.Slot = "db-1"
		c.with(&op)
		f := quiet(now)
		f.Paused, f.PausedBy = true, "frozen by an operator (ann): we look into it"
		op, _ = step(t, op, f, now, Aborted)
		if op.Failure.Cause != CausePaused || op.Reason != c.want {
			t.Errorf("%s: %s: %s", name, op.Failure.Cause, op.Reason)
		}
	}
}

// TestADrainedStepSaysThatItActsNext: a step between its drain and its call names the next action; a Drain is at its
// end.
func TestADrainedStepSaysThatItActsNext(t *testing.T) {
	for kind, want := range map[Kind]string{Restart: "acts next", Update: "acts next", Drain: "drained"} {
		op, now := to(t, kind, Draining)
		f := quiet(now)
		f.Steps = answer(VerbDrain, StepDone)
		if op, _ = step(t, op, f, now, Drained); op.Reason != want {
			t.Errorf("%s: %q", kind, op.Reason)
		}
	}
}
