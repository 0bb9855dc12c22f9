package rollout

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR60_BeginRecordsTheStepAndItsAssignment: Begin records the Operation, the Slot's assigned Revision, and the
// rollout that the step is evidence about.
func TestR60_BeginRecordsTheStepAndItsAssignment(t *testing.T) {
	for name, c := range map[string]struct {
		edit     func(*Action)
		assigned string
		rollout  bool
		refresh  bool
		member   *group.Membership
	}{
		"an update":              {func(a *Action) { a.Kind = operation.Update }, "B", true, false, &group.Membership{Joins: true}},
		"an update by hand":      {func(a *Action) { a.Kind, a.Actor = operation.Update, operation.ActorOperator }, "B", true, false, &group.Membership{Joins: true}},
		"a restart by hand":      {func(a *Action) { a.Kind, a.Actor = operation.Restart, operation.ActorOperator }, "A", false, false, &group.Membership{Joins: true}},
		"a restart that heals":   {func(a *Action) { a.Kind, a.Actor = operation.Restart, operation.ActorHealing }, "A", false, false, &group.Membership{Joins: true}},
		"a removal":              {func(a *Action) { a.Kind, a.Actor = operation.Delete, operation.ActorScaling }, "A", true, false, &group.Membership{Joins: true}},
		"a replacement":          {func(a *Action) { a.Kind, a.Actor = operation.Replace, operation.ActorOperator }, "B", false, false, &group.Membership{Joins: true}},
		"a creation":             {func(a *Action) { a.Kind, a.Actor = operation.Create, operation.ActorScaling }, "B", true, false, nil},
		"a creation that joins":  {func(a *Action) { a.Kind, a.Set.Joins = operation.Create, true }, "B", true, false, &group.Membership{Joins: true}},
		"a refresh":              {func(a *Action) { a.Kind, a.Way.Mode = operation.Update, operation.ModeRefresh }, "B", true, true, &group.Membership{Joins: true}},
		"no refresh: a creation": {func(a *Action) { a.Kind, a.Takes = operation.Create, group.ActionRefresh }, "B", true, false, nil},
	} {
		a := Action{Slot: "db-1", To: "B", From: "A", Execute: true, Actor: operation.ActorRollout, DrainWithin: time.Minute}
		c.edit(&a)
		p := Plan{Group: "db", Rollout: &operation.Rollout{ID: "r", Steps: 4, State: operation.Running}, Slots: []group.SlotRecord{
			{Slot: "db-0", Assigned: "A"}, {Slot: "db-1", Assigned: "A", Membership: &group.Membership{Joins: true}},
		}}
		op, ok := p.Begin(a, 9, epoch)
		if !ok || op.Order != 5 || op.Term != 9 || p.Rollout.Term != 9 || op.Attempt != 1 || !op.Times.DrainBy.Equal(epoch.Add(time.Minute)) || op.ID != "r.5.db-1" {
			t.Errorf("%s: %t, %+v", name, ok, op)
		}
		if op.Way.Refreshes() != c.refresh || (op.Rollout == "r") != c.rollout {
			t.Errorf("%s: refresh %t, rollout %q", name, op.Way.Refreshes(), op.Rollout)
		}
		mine, other := p.Slots[1], p.Slots[0]
		if mine.Assigned != c.assigned || (mine.Membership == nil) != (c.member == nil) || mine.Membership != nil && mine.Membership.Joins != c.member.Joins {
			t.Errorf("%s: recorded %+v", name, mine)
		}
		if other.Assigned != "A" || other.Membership != nil {
			t.Errorf("%s: another slot is %+v", name, other)
		}
	}
}

// TestR103_AnOperatorsUpdateResumesAFailedRollout: only an operator's update resumes a failed rollout.
func TestR103_AnOperatorsUpdateResumesAFailedRollout(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Action)
		want operation.RolloutState
	}{
		"an operator's update":   {func(*Action) {}, operation.Running},
		"an operator's restart":  {func(a *Action) { a.Kind = operation.Restart }, operation.FailedState},
		"the rollout's own step": {func(a *Action) { a.Actor = operation.ActorRollout }, operation.FailedState},
	} {
		a := Action{Slot: "db-1", Kind: operation.Update, Actor: operation.ActorOperator, Execute: true, Request: operation.Request{ID: "q"}}
		c.edit(&a)
		p := Plan{Rollout: &operation.Rollout{ID: "r", State: operation.FailedState}}
		if op, ok := p.Begin(a, 1, epoch); !ok || p.Rollout.State != c.want || op.ID != "db-1.q" {
			t.Errorf("%s: the rollout is %s, %+v", name, p.Rollout.State, op)
		}
	}
}

// TestAHeldOrOpenActionDoesNotBegin: the Action is held, it is under way, or no rollout exists to number it.
func TestAHeldOrOpenActionDoesNotBegin(t *testing.T) {
	for name, c := range map[string]struct {
		a Action
		r *operation.Rollout
	}{
		"it waits":         {Action{}, &operation.Rollout{}},
		"it is under way":  {Action{Execute: true, Operation: "op"}, &operation.Rollout{}},
		"nothing to count": {Action{Execute: true}, nil},
	} {
		if op, ok := (&Plan{Rollout: c.r}).Begin(c.a, 1, epoch); ok || op.ID != "" {
			t.Errorf("%s: began %+v", name, op)
		}
	}
}

// TestARequestsNameIsBounded: the id is part of a KV key, and two long ids stay different.
func TestARequestsNameIsBounded(t *testing.T) {
	fits := strings.Repeat("q", maxID-len("db-1."))
	if got := requestID("db-1", fits); got != "db-1."+fits {
		t.Errorf("%q", got)
	}
	one, two := requestID("db-1", fits+"1"), requestID("db-1", fits+"2")
	if one == two || len(one) > maxID || !strings.HasPrefix(one, "db-1.") {
		t.Errorf("%q and %q", one, two)
	}
}

// TestI17_WhichRequestGoesFirst: a replacement comes first, then an update. Among equal kinds, the lowest id comes
// first, in any order of the input.
func TestI17_WhichRequestGoesFirst(t *testing.T) {
	r := func(kind RequestKind, id string) Request { return Request{Kind: kind, ID: id, Slot: "db-1"} }
	all := []Request{r(RequestReplace, "x"), r(RequestReplace, "y"), r(RequestUpdate, "u"), r(RequestRestart, "a"), r(RequestRestart, "b")}
	for i, a := range all {
		for j, b := range all {
			if got := a.before(b); got != (i < j) {
				t.Errorf("%+v before %+v: %t", a, b, got)
			}
		}
	}
}

// TestR66_ResolvedIsTheWordAboutTheVeryOperation: Resolved returns the resolution of this Operation that was not
// applied yet.
func TestR66_ResolvedIsTheWordAboutTheVeryOperation(t *testing.T) {
	op := operation.Operation{ID: "op", Request: operation.Request{ResolvedBy: "heard"}}
	for name, c := range map[string]struct {
		r    Request
		want bool
	}{
		"about it":             {Request{Kind: RequestResolve, Operation: "op", ID: "q", As: "done"}, true},
		"about another one":    {Request{Kind: RequestResolve, Operation: "other", ID: "q"}, false},
		"answered":             {Request{Kind: RequestResolve, Operation: "op", ID: "q", Spent: true}, false},
		"heard":                {Request{Kind: RequestResolve, Operation: "op", ID: "heard"}, false},
		"asks for another one": {Request{Kind: RequestRestart, Operation: "op", ID: "q"}, false},
	} {
		if _, ok := (Observation{Requests: []Request{c.r}}).Resolved(op); ok != c.want {
			t.Errorf("%s: %t", name, ok)
		}
	}
	f := newFixture(3, "none").want("B")
	acting := drained(f, 2)
	for as, want := range map[string]operation.Phase{"done": operation.Done, "failed": operation.Failed, "odd": operation.Failed} {
		f.obs.Requests = []Request{{Kind: RequestResolve, Operation: acting.ID, ID: "q", As: as, By: "ann", Reason: "saw it"}}
		if r := f.facts(acting).Resolved; r == nil || r.As != want || r.ID != "q" || r.By != "ann" || r.Reason != "saw it" {
			t.Errorf("%s: %+v", as, r)
		}
	}
	if f.obs.Requests = nil; f.facts(acting).Resolved != nil {
		t.Error("nobody said anything, and it is resolved")
	}
}

// TestR65_ConsecutiveFailuresOfAStepAreItsTries: the newest consecutive failures of the same step count.
func TestR65_ConsecutiveFailuresOfAStepAreItsTries(t *testing.T) {
	failed := func(kind operation.Kind, to string, phase operation.Phase, cause operation.Cause) operation.Operation {
		return operation.Operation{Kind: kind, To: to, Phase: phase, Failure: operation.Failure{Cause: cause}, Times: operation.Times{Ended: epoch}}
	}
	for name, c := range map[string]struct {
		past        []operation.Operation
		kind        operation.Kind
		n, refusals int
	}{
		"nothing": {nil, operation.Update, 0, 0},
		"refused twice": {[]operation.Operation{failed(operation.Update, "B", operation.Failed, operation.CauseRefused),
			failed(operation.Update, "B", operation.Failed, operation.CauseRefused)}, operation.Update, 2, 2},
		"to another revision before": {[]operation.Operation{failed(operation.Update, "A", operation.Failed, operation.CauseRefused),
			failed(operation.Update, "B", operation.Aborted, operation.CauseHook)}, operation.Update, 1, 0},
		"another kind since": {[]operation.Operation{failed(operation.Update, "B", operation.Failed, operation.CauseRefused),
			failed(operation.Restart, "B", operation.Failed, operation.CauseRefused)}, operation.Update, 0, 0},
		"done since": {[]operation.Operation{failed(operation.Update, "B", operation.Failed, operation.CauseRefused),
			failed(operation.Update, "B", operation.Done, "")}, operation.Update, 0, 0},
		"a pause is no refusal":       {[]operation.Operation{failed(operation.Update, "B", operation.Aborted, operation.CausePaused)}, operation.Update, 0, 0},
		"unsafe":                      {[]operation.Operation{failed(operation.Update, "B", operation.Aborted, operation.CauseUnsafe)}, operation.Update, 1, 0},
		"a drain that took too long":  {[]operation.Operation{failed(operation.Update, "B", operation.Aborted, operation.CauseDrainDeadline)}, operation.Update, 1, 0},
		"a creation that never shows": {[]operation.Operation{failed(operation.Create, "B", operation.Failed, operation.CauseDeadline)}, operation.Create, 1, 1},
		"an update that is late":      {[]operation.Operation{failed(operation.Update, "B", operation.Failed, operation.CauseDeadline)}, operation.Update, 1, 0},
		"a removal, wherever it led":  {[]operation.Operation{failed(operation.Delete, "", operation.Failed, operation.CauseRefused)}, operation.Delete, 1, 1},
	} {
		n, refusals, last := candidate{m: &member{slot: "db-1", history: history{past: c.past}}, kind: c.kind, to: "B"}.tries()
		if n != c.n || refusals != c.refusals || (last != nil) != (n > 0) {
			t.Errorf("%s: %d tries, %d refused, last %+v", name, n, refusals, last)
		}
	}
}

// TestR65_HowLongATryWaits: the wait grows with each attempt, up to operation.MaxWait from now. An operator's
// request does not wait.
func TestR65_HowLongATryWaits(t *testing.T) {
	aborted := func(n int) []operation.Operation {
		var out []operation.Operation
		for range n {
			out = append(out, operation.Operation{Kind: operation.Update, To: "B", Phase: operation.Aborted, Failure: operation.Failure{Cause: operation.CauseHook}, Times: operation.Times{Ended: epoch}, Reason: "no"})
		}
		return out
	}
	ask := func(n int, now time.Time, edit func(*candidate)) []Hold {
		c := candidate{m: &member{slot: "db-1", history: history{past: aborted(n), drains: aborted(n)}}, kind: operation.Update, to: "B"}
		if edit != nil {
			edit(&c)
		}
		return (&world{now: now}).holdsOfTries(c, evaluation{})
	}
	for n, wait := range map[int]time.Duration{1: firstWait, 2: 2 * firstWait, 40: operation.MaxWait} {
		if h := ask(n, epoch, nil); len(h) != 1 || h[0].Predicate != HoldBackoff || !h[0].Until.Equal(epoch.Add(wait)) {
			t.Errorf("after %d: %+v, want to wait %s", n, h, wait)
		}
		if h := ask(n, epoch.Add(wait), nil); len(h) != 0 {
			t.Errorf("after %d and %s: %+v", n, wait, h)
		}
		if h := ask(n, epoch.Add(wait-1), nil); len(h) != 1 {
			t.Errorf("after %d, a moment before %s: free", n, wait)
		}
	}
	ahead := epoch.Add(-time.Hour) // the clock that recorded the end was ahead of this clock
	if h := ask(1, ahead, nil); len(h) != 1 || !h[0].Until.Equal(ahead.Add(operation.MaxWait)) {
		t.Errorf("ended in the future: %+v", h)
	}
	if h := ask(1, epoch, func(c *candidate) { c.marked = true }); len(h) != 0 {
		t.Errorf("asked for: %+v", h)
	}
	if h := ask(1, epoch, func(c *candidate) { c.actor = operation.ActorOperator }); len(h) != 0 {
		t.Errorf("an operator's: %+v", h)
	}
	if h := ask(0, epoch, nil); len(h) != 0 {
		t.Errorf("the first: %+v", h)
	}
}
