package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func (f *fixture) gate(gates ...group.Gate) *fixture {
	f.spec.Gates = gates
	f.spec.Normalize()
	return f
}

func (f *fixture) setting(scope, state, ticket string, until time.Duration) *fixture {
	w := &Override{State: state, Ticket: ticket, By: "ann", Reason: "the net is mended"}
	if until != 0 {
		w.Until = f.now.Add(until)
	}
	if f.obs.Gates == nil {
		f.obs.Gates = map[string]*Override{}
	}
	f.obs.Gates[scope] = w
	return f
}

// gateHold is the message of gate_closed for a slot's step; "": none.
func gateHold(p Plan, slot string) string {
	for _, a := range p.Actions {
		if i := slices.IndexFunc(a.Holds, func(h Hold) bool { return h.Predicate == HoldGateClosed }); a.Slot == slot && i >= 0 {
			return a.Holds[i].Message
		}
	}
	return ""
}

// TestR150_WhichSettingOpensAGate: an unreadable setting closes a gate, and an ended setting counts as none.
func TestR150_WhichSettingOpensAGate(t *testing.T) {
	one := group.Gate{Name: "alarm", On: []string{group.GateOnStep}}
	open := group.Gate{Name: "alarm", On: []string{group.GateOnStep}, Default: group.GateOpen}
	slot := group.Gate{Name: "alarm", On: []string{group.GateOnStep}, Per: group.GatePerSlot}
	for name, c := range map[string]struct {
		edit func(f *fixture)
		want string // a part of the message; "": the gate is open
	}{
		"no setting":                {func(f *fixture) { f.gate(one) }, "no operator has opened it; to open it: cadre gate open db/alarm --reason"},
		"no setting, open":          {func(f *fixture) { f.gate(open) }, ""},
		"opened":                    {func(f *fixture) { f.gate(one).setting("alarm", "open", "", 0) }, ""},
		"opened for a while":        {func(f *fixture) { f.gate(one).setting("alarm", "open", "", time.Minute) }, ""},
		"opened until a past":       {func(f *fixture) { f.gate(one).setting("alarm", "open", "", -time.Minute) }, "no operator has opened it"},
		"closed":                    {func(f *fixture) { f.gate(open).setting("alarm", "closed", "", 0) }, "closed by an operator (ann): the net is mended;"},
		"closed for a while":        {func(f *fixture) { f.gate(open).setting("alarm", "closed", "", time.Minute) }, ", until 20"},
		"closed until a past":       {func(f *fixture) { f.gate(open).setting("alarm", "closed", "", -time.Minute) }, ""},
		"unreadable":                {func(f *fixture) { f.gate(open).setting("alarm", "", "", 0) }, "its record control/gate/db/alarm has no readable state"},
		"another state":             {func(f *fixture) { f.gate(open).setting("alarm", "Open", "", 0) }, "no readable state"},
		"another gate's setting":    {func(f *fixture) { f.gate(one).setting("other", "open", "", 0) }, "no operator has opened it"},
		"per slot":                  {func(f *fixture) { f.gate(slot) }, "cadre gate open db/alarm --slot db-2 --ticket "},
		"per slot, group's setting": {func(f *fixture) { f.gate(slot).setting("alarm", "open", "", 0) }, "no operator has opened it"},
		"per slot, without":         {func(f *fixture) { f.gate(slot).setting("alarm/db-2", "open", "", 0) }, "names another step"},
		"per slot, other ticket":    {func(f *fixture) { f.gate(slot).setting("alarm/db-2", "open", "00", 0) }, "names another step"},
		"per slot, another slot":    {func(f *fixture) { f.gate(slot).setting("alarm/db-1", "open", "00", 0) }, "no operator has opened it"},
		"per slot, unreadable":      {func(f *fixture) { f.gate(slot).setting("alarm/db-2", "", "", 0) }, "control/gate/db/alarm/db-2 has no readable state"},
		"the second gate":           {func(f *fixture) { g := one; g.Name = "net"; f.gate(open, g) }, "gate db/net"},
		"a gate on other work":      {func(f *fixture) { f.gate(group.Gate{Name: "a", On: []string{"create", "remove", "heal"}}) }, ""},
		"the deletion of a group":   {func(f *fixture) { f.gate(one).obs.Deletion = &Deletion{} }, ""},
	} {
		f := newFixture(3, "none").want("B")
		c.edit(f)
		if got := gateHold(f.plan(), "db-2"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: held by %q, want %q", name, got, c.want)
		}
	}
}

// TestR150_AGateHoldsItsWorkAlone: of all work, and never of a repair or a refresh that the gate does not name.
func TestR150_AGateHoldsItsWorkAlone(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture)
		slot string
		work string
	}{
		"update":  {func(f *fixture) { f.want("B") }, "db-2", group.GateOnStep},
		"restart": {func(f *fixture) { f.asks("db-1", "q") }, "db-1", group.GateOnStep},
		"replace": {func(f *fixture) { f.asksFor(RequestReplace, "db-1", "q") }, "db-1", group.GateOnStep},
		"create":  {func(f *fixture) { f.spec.Replicas = 4 }, "db-3", group.GateOnCreate},
		"remove":  {func(f *fixture) { f.spec.Replicas = 2 }, "db-2", group.GateOnRemove},
		"heal": {func(f *fixture) {
			f.spec.AutoHealing = &group.AutoHealing{}
			f.obs.Slots[1].Instance.Status, f.obs.Slots[1].Report = "stopped", nil
			f.rec.Slots[1].DownSince, f.rec.Slots[1].UnavailableSince = f.now.Add(-time.Hour), f.now.Add(-time.Hour)
		}, "db-1", group.GateOnHeal},
		"drain": {func(f *fixture) { f.drains(1) }, "db-1", ""},
		"stop":  {func(f *fixture) { f.spec.Stopped = true }, "db-2", ""},
	} {
		for _, work := range group.GateWork() {
			f := newFixture(3, "none")
			c.edit(f)
			f.spec.Normalize()
			if !slices.ContainsFunc(f.plan().Actions, func(a Action) bool { return a.Slot == c.slot }) {
				t.Fatalf("%s: no step of %s is planned: %s", name, c.slot, f.plan().Message)
			}
			f.gate(group.Gate{Name: "g", On: []string{work}, Per: group.GatePerSlot})
			if got := gateHold(f.plan(), c.slot); (got != "") != (work == c.work) {
				t.Errorf("a gate on %s: %s is held by %q", work, name, got)
			}
		}
	}
}

// TestR150_ATicketIsOfOneStep: it stays while nothing happens, and changes with the Boot, the target and the attempt.
func TestR150_ATicketIsOfOneStep(t *testing.T) {
	gate := group.Gate{Name: "g", On: []string{group.GateOnStep}, Per: group.GatePerSlot}
	ticket := func(edit func(f *fixture)) string {
		f := newFixture(3, "none").want("B").gate(gate)
		f.rolling()
		edit(f)
		for _, a := range f.plan().Actions {
			if a.Slot == "db-2" {
				return a.Ticket
			}
		}
		return ""
	}
	first := ticket(func(*fixture) {})
	if len(first) != 16 || ticket(func(f *fixture) { f.now = f.now.Add(time.Second); f.sick(0) }) != first {
		t.Errorf("ticket %q, and a second later another", first)
	}
	seen := map[string]string{first: "first"}
	for name, edit := range map[string]func(f *fixture){
		"another boot":   func(f *fixture) { f.obs.Slots[2].Admission.BootID = "b2" },
		"another target": func(f *fixture) { f.want("C") },
		"a request":      func(f *fixture) { f.asksFor(RequestUpdate, "db-2", "q1") },
		"another one":    func(f *fixture) { f.asksFor(RequestUpdate, "db-2", "q2") },
		"an attempt": func(f *fixture) {
			f.op(2, operation.Aborted, func(op *operation.Operation) { op.To, op.Failure.Cause = f.spec.Revision(), operation.CausePaused })
		},
		"another attempt, forgiven": func(f *fixture) {
			f.op(2, operation.Failed, func(op *operation.Operation) { op.To, op.Order = f.spec.Revision(), 2 })
			f.rec.Rollout.Forgiven, f.rec.Rollout.Steps = 2, 2
		},
	} {
		got := ticket(edit)
		if other, known := seen[got]; known || got == "" {
			t.Errorf("%s: ticket %q is that of %s", name, got, other)
		}
		seen[got] = name
	}
	f := newFixture(3, "none").want("B").gate(gate)
	f.rolling()
	f.setting("g/db-2", group.GateOpen, first, 0)
	p := f.plan()
	i := slices.IndexFunc(p.Actions, func(a Action) bool { return a.Execute })
	if i < 0 || p.Actions[i].Slot != "db-2" {
		t.Fatalf("the setting with the ticket opens nothing: %s", p.Message)
	}
	op, _ := p.Begin(p.Actions[i], 1, f.now)
	f.rec.Operations = append(f.rec.Operations, op)
	if facts := f.facts(op); op.Ticket != first || facts.Paused {
		t.Errorf("the step has ticket %q, and is called off: %s", op.Ticket, facts.PausedBy)
	}
	f.setting("g/db-2", group.GateOpen, "00", 0)
	if facts := f.facts(op); !facts.Paused || !strings.Contains(facts.PausedBy, "gate_closed") {
		t.Error("the step goes on behind a gate that closed before the call")
	}
	for _, phase := range []operation.Phase{operation.Booting, operation.Joining, operation.Settling} {
		op.Phase = phase
		f.rec.Operations[len(f.rec.Operations)-1] = op
		if facts := f.facts(op); facts.Paused {
			t.Errorf("a gate stops the clock of a step that has acted: %s", phase)
		}
	}
}

// TestR150_ATicketOfARepairOutlastsTheBoots of a member that is broken, and names one repair of one outage.
func TestR150_ATicketOfARepairOutlastsTheBoots(t *testing.T) {
	ticket := func(edit func(f *fixture)) string {
		f := newFixture(3, "none").gate(group.Gate{Name: "g", On: []string{group.GateOnHeal}, Per: group.GatePerSlot})
		f.downFor(1, time.Hour)
		edit(f)
		for _, a := range f.plan().Actions {
			if a.Slot == "db-1" && a.Actor == operation.ActorHealing {
				return a.Ticket
			}
		}
		return ""
	}
	boots := func(f *fixture) { f.obs.Slots[1].Admission.BootID = "b2" }
	first := ticket(func(*fixture) {})
	if len(first) != 16 || ticket(boots) != first {
		t.Errorf("ticket %q, and %q after a boot", first, ticket(boots))
	}
	repaired := func(f *fixture) {
		f.op(1, operation.Failed, func(op *operation.Operation) {
			op.Kind, op.Actor, op.Rollout = operation.Restart, operation.ActorHealing, ""
			op.Times.Created = f.now.Add(-30 * time.Minute)
		})
	}
	seen := map[string]string{first: "first"}
	for name, edit := range map[string]func(f *fixture){
		"after a repair": repaired,
		"another outage": func(f *fixture) { f.rec.Slots[1].UnavailableSince = f.now.Add(-50 * time.Minute) },
	} {
		got := ticket(edit)
		if other, known := seen[got]; known || got == "" {
			t.Errorf("%s: ticket %q is that of %s", name, got, other)
		}
		seen[got] = name
	}
}
