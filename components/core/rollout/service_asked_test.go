package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// asksService makes an operator ask for a restart of one service of a Slot.
func (f *fixture) asksService(slot, service string) *fixture {
	f.obs.Requests = append(f.obs.Requests, Request{ID: "r", Kind: RequestRestart, Slot: slot, Service: service, Reason: "it leaks", By: "somebody"})
	return f
}

// TestR115_AnOperatorNamesAService: only that service is restarted, at the Slot's current Revision, even on an
// outdated or unhealthy Slot. The rules for restarts hold it, and one Operation answers it.
func TestR115_AnOperatorNamesAService(t *testing.T) {
	for name, f := range map[string]*fixture{
		"at rest":          newFixture(3, "patroni"),
		"outdated":         newFixture(3, "patroni").want("B"),
		"ill":              heals(3, "none").failing(1, "ready"),
		"healed otherwise": onService(),
	} {
		runs := f.obs.Slots[1].Admission.Revision
		p := f.asksService("db-1", "web").plan()
		a := actionOf(t, p, "db-1")
		if !a.Execute || a.Kind != operation.Restart || a.Way.Service != "web" || a.Actor != operation.ActorOperator || a.To != runs || a.Class != ClassMarked {
			t.Errorf("%s: %+v", name, a)
			continue
		}
		op, ok := p.Begin(a, 3, f.now)
		if !ok || op.Way.Service != "web" || op.Request.ID != "r" || op.Rollout != "" || op.Request.By != "somebody" {
			t.Errorf("%s: begins %+v", name, op)
		}
		f.rec.Operations = append(f.rec.Operations, op)
		if got := f.plan().Answered; len(got) != 1 {
			t.Errorf("%s: answered %v", name, got)
		}
	}
}

// TestR115_AServiceRestartIsNotOrderedFromASilentAgent: the request waits for an agent that does not report, and names
// the reason. The budget holds the request like any other restart, and a gone CVM answers it.
func TestR115_AServiceRestartIsNotOrderedFromASilentAgent(t *testing.T) {
	f := newFixture(3, "none").asksService("db-1", "web")
	f.obs.Slots[1].Report.ReceivedAt = f.now.Add(-operation.LiveWithin)
	wantHeld(t, f.plan(), "db-1", HoldUnknownHealth)
	f = newFixture(3, "none").asksService("db-1", "web").silent(1, f.now.Add(-time.Hour))
	wantHeld(t, f.plan(), "db-1", HoldUnknownHealth)

	f = newFixture(3, "none").asksService("db-1", "web").sick(2)
	wantHeld(t, f.plan(), "db-1", HoldMaxUnavailable)

	f = newFixture(3, "none").asksService("db-1", "web").gone(1, time.Hour)
	if got := f.plan().Answered; len(got) != 1 {
		t.Errorf("answered %v", got)
	}
}

// TestR115_ANamedServiceIsNoWordAboutTheSlot: a leader whose step waits for an operator still waits.
func TestR115_ANamedServiceIsNoWordAboutTheSlot(t *testing.T) {
	f := newFixture(3, "patroni").want("B")
	f.spec.UpdatePolicy.Leader = "ask"
	w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
	lead := w.find("db-0")
	if !w.asks(lead) {
		t.Fatal("nobody is asked")
	}
	f.asksService("db-0", "web")
	w = newWorld(f.spec, f.rec, f.obs, f.now, f.t)
	if !w.asks(w.find("db-0")) {
		t.Error("who names a service has said nothing about the step")
	}
}
