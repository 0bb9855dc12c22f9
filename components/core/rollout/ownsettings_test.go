package rollout

import (
	"slices"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// coloured is a fixture at its target whose second Slot gets an env value of its own.
func coloured(t *testing.T) (f *fixture, name string) {
	t.Helper()
	f = newFixture(3, "none")
	f.spec.Template.Env = map[string]string{"COLOR": "blue"}
	at := f.spec.Revision()
	f.rec.Revisions[at] = group.RevisionRecord{Digest: at, ComposeHash: hashOf("A"), Template: f.spec.Template}
	f.rec.Status.Target, f.rec.Status.Stable, f.rec.Rollout.To = at, at, at
	for i := range f.rec.Slots {
		f.rec.Slots[i].Assigned, f.rec.Slots[i].WasAvailableAt, f.obs.Slots[i].Admission.Revision = at, at, at
	}
	f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, Env: map[string]string{"COLOR": "red"}}}
	return f, f.spec.OwnEnv(1, f.spec.Template)
}

func TestR143_AValueOfOneSlotIsAStepOfItAlone(t *testing.T) {
	f, name := coloured(t)
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	a := p.Actions[0]
	if a.From != a.To || a.Takes != group.ActionRestart || a.Why != `instance["1"].env` {
		t.Errorf("%+v", a)
	}
	if !slices.ContainsFunc(p.Moves, func(m Move) bool {
		return len(m.Changes) == 1 && m.Changes[0].Path == `instance["1"].env` && m.Changes[0].Class == group.ActionRestart
	}) {
		t.Errorf("moves %+v", p.Moves)
	}
	words := func(p Plan) (out []string) {
		for _, i := range p.Status.Instances {
			out = append(out, i.OwnEnv)
		}
		return out
	}
	if got := words(p); !slices.Equal(got, []string{"", group.OwnUnapplied, ""}) {
		t.Errorf("told before: %q", got)
	}
	f.rec.Slots[1].OwnEnv = name
	p = f.plan()
	if got := words(p); len(p.Actions) != 0 || !slices.Equal(got, []string{"", group.OwnApplied, ""}) {
		t.Errorf("told after: %q, and %d actions", got, len(p.Actions))
	}
	f.spec.Instances = nil
	wantExecutes(t, f.plan(), "UPDATE db-1") // withdrawing the value is a step too
}

// TestR143_AValueIsHeldLikeAnUpdate: the rules of updates apply to a step for a value, including the limit on
// restarts.
func TestR143_AValueIsHeldLikeAnUpdate(t *testing.T) {
	f, _ := coloured(t)
	f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh
	wantHeld(t, f.plan(), "db-1", HoldActionNotAllowed)
	f, _ = coloured(t)
	f.spec.UpdatePolicy.Type = group.Opportunistic
	wantHeld(t, f.plan(), "db-1", HoldOpportunistic)
	f, _ = coloured(t)
	f.spec.Instances[0].ExcludeFromRollout = true
	if p := f.plan(); len(p.Actions) != 0 || p.Status.Instances[1].OwnEnv != group.OwnUnapplied {
		t.Errorf("excluded: %d actions, told %q", len(p.Actions), p.Status.Instances[1].OwnEnv)
	}
}

func TestR143_GivenEnvIsRecordedWithItsCall(t *testing.T) {
	f, name := coloured(t)
	f.op(1, operation.Drained, func(op *operation.Operation) { op.From, op.To = f.spec.Revision(), f.spec.Revision() })
	facts := f.facts(f.rec.Operations[0])
	if facts.OwnEnv != name || facts.GivenEnv != "" {
		t.Errorf("to give %q, given %q", facts.OwnEnv, facts.GivenEnv)
	}
	op := operation.Operation{Call: operation.Call{OwnEnv: name, Applied: []operation.Part{operation.PartResources}}}
	if got := op.OwnEnvAfter("x"); got != "x" {
		t.Errorf("a resize gave it %q", got)
	}
	op.Call.Applied = append(op.Call.Applied, operation.PartCompose)
	if got := op.OwnEnvAfter("x"); got != name {
		t.Errorf("after the call it has %q", got)
	}
}

// TestR143_WhereThereIsNothingToGiveNothingIsUnapplied: the CVM is missing, the CVM goes, or the Revision is unknown.
func TestR143_WhereThereIsNothingToGiveNothingIsUnapplied(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(m *member)
		want bool
	}{
		"it runs":                 {func(*member) {}, true},
		"it has no CVM":           {func(m *member) { m.seen.Instance = nil }, false},
		"it is to go":             {func(m *member) { m.terminating = true }, false},
		"nothing is wanted of it": {func(m *member) { m.want.revision = "" }, false},
		"nobody knows the text":   {func(m *member) { m.want.revision = "unrecorded" }, false},
	} {
		f, _ := coloured(t)
		w := seenBy(f)
		m := w.find("db-1")
		c.edit(m)
		if got := w.envUnapplied(m); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestR132_ThePlanShowsAKnownMoveOnce: the plan lists each pair of Revisions once, and only where both have records.
func TestR132_ThePlanShowsAKnownMoveOnce(t *testing.T) {
	f, _ := coloured(t)
	f.spec.Template.InstanceType = "tdx.small"
	a, before := f.spec.Revision(), f.spec.Template
	f.spec.Template.InstanceType = "tdx.large"
	b := f.spec.Revision()
	f.rec.Revisions[a] = group.RevisionRecord{Digest: a, ComposeHash: hashOf("A"), Template: before}
	f.rec.Revisions[b] = group.RevisionRecord{Digest: b, ComposeHash: hashOf("A"), Template: f.spec.Template}
	update := func(slot, from, to string) Action {
		return Action{Slot: slot, Kind: operation.Update, From: from, To: to}
	}
	for name, c := range map[string]struct {
		actions []Action
		want    int
	}{
		"one":                         {[]Action{update("db-0", a, b)}, 1},
		"two of the same":             {[]Action{update("db-0", a, b), update("db-2", a, b)}, 1},
		"one that is no update":       {[]Action{{Slot: "db-0", Kind: operation.Restart, From: a, To: b}}, 0},
		"from what nobody recorded":   {[]Action{update("db-0", "unrecorded", b)}, 0},
		"nothing changes":             {[]Action{update("db-0", a, a)}, 0},
		"values of one alone":         {[]Action{update("db-1", a, a)}, 1},
		"of a slot that is not there": {[]Action{update("db-9", a, a)}, 0},
	} {
		if got := seenBy(f).movesOf(c.actions); len(got) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestR53_AStepForValuesAloneIsNoneOfTheRollouts: only if the Slot runs its wanted Revision, and the platform shows no
// other difference.
func TestR53_AStepForValuesAloneIsNoneOfTheRollouts(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *fixture, m *member)
		want bool
	}{
		"values alone":                     {func(*fixture, *member) {}, true},
		"they are there":                   {func(f *fixture, m *member) { m.record.OwnEnv = f.spec.OwnEnv(1, f.spec.Template) }, false},
		"it runs another Revision":         {func(_ *fixture, m *member) { m.observed = "another" }, false},
		"the platform shows another image": {func(_ *fixture, m *member) { m.seen.Instance.Shape.OSImage = "dstack-0.5.9" }, false},
	} {
		f, _ := coloured(t)
		w := seenBy(f)
		m := w.find("db-1")
		c.edit(f, m)
		if got := w.onlyOwn(m); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// resized is a fixture at its target whose second Slot gets a size of its own.
func resized(t *testing.T) *fixture {
	t.Helper()
	f, _ := coloured(t)
	f.spec.Template.InstanceType = "tdx.small"
	at := f.spec.Revision()
	f.rec.Revisions[at] = group.RevisionRecord{Digest: at, ComposeHash: hashOf("A"), Template: f.spec.Template}
	f.rec.Status.Target, f.rec.Status.Stable, f.rec.Rollout.To = at, at, at
	for i := range f.rec.Slots {
		f.rec.Slots[i].Assigned, f.rec.Slots[i].WasAvailableAt, f.obs.Slots[i].Admission.Revision = at, at, at
		f.obs.Slots[i].Instance.Shape.InstanceType = "tdx.small"
	}
	f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, InstanceType: "tdx.large"}}
	return f
}

func TestR143_ASizeOfOneSlotIsAStepOfItAlone(t *testing.T) {
	f := resized(t)
	p := f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	a, path := p.Actions[0], `instance["1"].instance_type`
	if a.From != a.To || a.Takes != group.ActionRestart || a.Why != path || a.Way.Mode != operation.ModeOwn {
		t.Errorf("%+v", a)
	}
	if len(p.Moves) != 1 || p.Moves[0].Changes[0].String() != path+" = tdx.large (RESTART)" {
		t.Errorf("moves %+v", p.Moves)
	}
	words := func(p Plan) (out []string) {
		for _, i := range p.Status.Instances {
			out = append(out, i.OwnInstanceType)
		}
		return out
	}
	if got := words(p); !slices.Equal(got, []string{"", group.OwnUnapplied, ""}) {
		t.Errorf("told before: %q", got)
	}
	f.obs.Slots[1].Instance.Shape.InstanceType = "tdx.large"
	p = f.plan()
	if got := words(p); len(p.Actions) != 0 || !slices.Equal(got, []string{"", group.OwnApplied, ""}) {
		t.Errorf("told after: %q, and %d actions", got, len(p.Actions))
	}
	f.spec.Instances = nil
	p = f.plan()
	wantExecutes(t, p, "UPDATE db-1")
	if got := words(p); p.Actions[0].Why != "template.instance_type" || !slices.Equal(got, []string{"", group.OwnUnapplied, ""}) {
		t.Errorf("without it: told %q, because of %s", got, p.Actions[0].Why)
	}
}

// TestR143_ASizeIsHeldLikeAnUpdate: the rules of updates apply to a step for a size, and the platform's refusal of the
// size holds the one Slot.
func TestR143_ASizeIsHeldLikeAnUpdate(t *testing.T) {
	f := resized(t)
	f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh
	wantHeld(t, f.plan(), "db-1", HoldActionNotAllowed)
	f = resized(t)
	f.spec.UpdatePolicy.Type = group.Opportunistic
	wantHeld(t, f.plan(), "db-1", HoldOpportunistic)
	f = resized(t)
	f.obs.Refused = map[string]string{RefusedSize("db-1", "tdx.large"): "not offered"}
	wantHeld(t, f.plan(), "db-1", HoldPrecondition)
	f = resized(t)
	f.spec.Instances[0].ExcludeFromRollout = true
	if p := f.plan(); len(p.Actions) != 0 || p.Status.Instances[1].OwnInstanceType != group.OwnUnapplied {
		t.Errorf("excluded: %d actions, told %q", len(p.Actions), p.Status.Instances[1].OwnInstanceType)
	}
}

// TestR143_AStepKeepsTheSizeOfItsCall: a call that may have an effect fixes the size of the step. A refused call, a stop
// and a deletion fix none.
func TestR143_AStepKeepsTheSizeOfItsCall(t *testing.T) {
	for name, c := range map[string]struct {
		call operation.Call
		want string
	}{
		"no call":              {operation.Call{}, "tdx.large"},
		"a call under way":     {operation.Call{Number: 1, Part: operation.PartResources, OwnInstanceType: "tdx.medium"}, "tdx.medium"},
		"to that of To":        {operation.Call{Number: 1, Part: operation.PartResources}, ""},
		"a refused call":       {operation.Call{Number: 1, Part: operation.PartResources, Outcome: operation.OutcomeRefused, OwnInstanceType: "tdx.medium"}, "tdx.large"},
		"between two parts":    {operation.Call{Number: 1, Part: operation.PartCompose, Outcome: operation.OutcomeBusy, Applied: []operation.Part{operation.PartResources}, OwnInstanceType: "tdx.medium"}, "tdx.medium"},
		"a stop":               {operation.Call{Number: 1, Part: operation.PartStop, OwnInstanceType: "tdx.medium"}, "tdx.large"},
		"after its own delete": {operation.Call{Number: 1, Part: operation.PartCreate, Outcome: operation.OutcomeRefused, Applied: []operation.Part{operation.PartDelete}, OwnInstanceType: "tdx.medium"}, "tdx.large"},
	} {
		f := resized(t)
		f.op(1, operation.Acting, func(op *operation.Operation) { op.From, op.To, op.Call = f.spec.Revision(), f.spec.Revision(), c.call })
		facts := f.facts(f.rec.Operations[0])
		wanted := c.want
		if wanted == "" {
			wanted = "tdx.small"
		}
		if facts.OwnInstanceType != c.want || facts.WantedShape.InstanceType != wanted {
			t.Errorf("%s: own %q, wanted %q", name, facts.OwnInstanceType, facts.WantedShape.InstanceType)
		}
	}
}

// TestR39_AnotherSizeIsAnotherTry: a step that failed is not repeated with the same size.
func TestR39_AnotherSizeIsAnotherTry(t *testing.T) {
	for size, want := range map[string]bool{"tdx.large": true, "tdx.medium": false, "": false} {
		f := resized(t)
		w := seenBy(f)
		op := operation.Operation{To: f.spec.Revision(), Call: operation.Call{OwnInstanceType: size}}
		if got := w.sameOwn(w.find("db-1"), op); got != want {
			t.Errorf("after a step to %q: %t", size, got)
		}
	}
}

// TestR99_AFailedStepForASizeIsAVerdict although its member serves: the step is not tried again.
func TestR99_AFailedStepForASizeIsAVerdict(t *testing.T) {
	f := resized(t)
	f.op(1, operation.Failed, func(op *operation.Operation) {
		failedStep(op)
		op.From, op.To, op.Way.Mode = f.rec.Rollout.To, f.rec.Rollout.To, operation.ModeOwn
		op.Call.OwnInstanceType = f.spec.Instance(1).InstanceType
	})
	if p := f.plan(); p.Rollout.State != operation.FailedState || p.Rollout.Verdict == nil || p.Rollout.Verdict.Slot != "db-1" {
		t.Errorf("state %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
}
