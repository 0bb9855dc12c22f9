package rollout

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// onService is a group whose spec names a service, and whose db-1 fails its check.
func onService() *fixture {
	f := heals(3, "none").failing(1, "ready")
	f.spec.AutoHealing.Service = "app"
	return f
}

// TestR115_AServiceGoesBeforeItsCVM: while the agent reports the fault, the planner restarts the service twice, and
// then the CVM.
func TestR115_AServiceGoesBeforeItsCVM(t *testing.T) {
	f := onService()
	p := f.plan()
	wantExecutes(t, p, "RESTART db-1")
	a := actionOf(t, p, "db-1")
	op, ok := p.Begin(a, 3, f.now)
	if !ok || a.Way.Service != "app" || op.Way.Service != "app" || op.Actor != operation.ActorHealing || op.To != f.spec.Revision() {
		t.Fatalf("%+v, %t", op, ok)
	}
	if h := p.Slots[1].Heals; h == nil || h.Services != 1 || h.Attempts != 0 {
		t.Errorf("attempts %+v", h)
	}
	for name, c := range map[string]struct {
		edit func(f *fixture)
		want string
	}{
		"once before":             {func(f *fixture) { f.served(1, 1) }, "app"},
		"twice before":            {func(f *fixture) { f.served(1, 2) }, ""},
		"its CVM was restarted":   {func(f *fixture) { f.tried(1, 1, time.Hour) }, ""},
		"the agent cannot":        {func(f *fixture) { f.served(1, 1); f.refusedService(1) }, ""},
		"its CVM stopped":         {func(f *fixture) { f.stopped(1) }, ""},
		"its agent is silent":     {func(f *fixture) { f.silent(1, f.now.Add(-6*time.Minute)) }, ""},
		"the spec names none":     {func(f *fixture) { f.spec.AutoHealing.Service = "" }, ""},
		"an operator asks for it": {func(f *fixture) { f.asks("db-1", "r") }, ""},
	} {
		f := onService()
		c.edit(f)
		if a := actionOf(t, f.plan(), "db-1"); !a.Execute || a.Kind != operation.Restart || a.Way.Service != c.want {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// served records restarts of the service of ordinal i, an hour ago.
func (f *fixture) served(i, n int) *fixture {
	f.rec.Slots[i].Heals = &group.Heals{Services: n, LastAt: f.now.Add(-time.Hour), LastKind: "RESTART", LastWhy: "it was down"}
	return f
}

// refusedService makes the agent of ordinal i fail to restart the service in this outage.
func (f *fixture) refusedService(i int) {
	f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-2*time.Hour)
	f.op(i, operation.Failed, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.Way.Service, op.Failure.Cause = operation.Restart, operation.ActorHealing, "", "app", operation.CauseService
		op.Times.Ended = f.now.Add(-time.Hour)
	})
}

// TestR119_AStormDoesNotHoldADownProcess: the start of a process that is down takes nothing away. The restart of a
// process that merely fails its check may take service away.
func TestR119_AStormDoesNotHoldADownProcess(t *testing.T) {
	f := onService().failing(2, "ready")
	wantHeld(t, f.plan(), "db-1", HoldHealStorm)
	f = heals(3, "patroni").sick(1).sick(2)
	f.spec.AutoHealing.Service = "app"
	for _, i := range []int{1, 2} {
		f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
		f.rec.Slots[i].DownSince = f.now.Add(-unwellFor)
	}
	p := f.plan()
	wantExecutes(t, p, "RESTART db-2") // one voter after the other
	if a := actionOf(t, p, "db-2"); a.Way.Service != "app" {
		t.Errorf("%+v", a)
	}
	f.spec.AutoHealing.Service = ""
	wantHeld(t, f.plan(), "db-1", HoldHealStorm)
}

// TestR70_AServicesRestartGoesOn: the step's own count does not cancel it. The stop of its CVM does.
func TestR70_AServicesRestartGoesOn(t *testing.T) {
	f := onService().served(1, 2)
	f.op(1, operation.Draining, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.Way.Service, op.To = operation.Restart, operation.ActorHealing, "", "app", f.spec.Revision()
	})
	op := f.rec.Operations[0]
	if got := f.facts(op); got.Unwanted != "" || got.Limits.Service != serviceWithin {
		t.Errorf("unwanted %q, within %s", got.Unwanted, got.Limits.Service)
	}
	f.stopped(1)
	if got := f.facts(op); !strings.Contains(got.Unwanted, "its CVM") {
		t.Errorf("unwanted %q", got.Unwanted)
	}
}
