package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/queue"
)

// heals makes member i down and due for a repair.
func (f *fixture) heals(i int) *fixture {
	f.spec.AutoHealing = &group.AutoHealing{}
	f.spec.Normalize()
	f.obs.Slots[i].Instance.Status, f.obs.Slots[i].Report = "stopped", nil
	f.rec.Slots[i].DownSince, f.rec.Slots[i].UnavailableSince = f.now.Add(-time.Hour), f.now.Add(-time.Hour)
	return f
}

// creation makes a group without any CVM.
func creation(n int) *fixture {
	f := newFixture(n, "none")
	f.spec.ManagementPolicy = group.Parallel
	for i := range n {
		f.missing(i)
		f.rec.Slots[i] = group.SlotRecord{Group: "db", Slot: f.rec.Slots[i].Slot, Ordinal: i}
		f.obs.Slots[i].Report = nil
	}
	f.rec.Status, f.rec.Rollout, f.spec.AppID = group.Status{Group: "db"}, nil, strings.Repeat("a", 40)
	return f
}

func (f *fixture) after(waits string) *fixture {
	f.spec.After = []string{"base"}
	f.obs.Predecessors = []Predecessor{{Group: "base", Waits: waits}}
	return f
}

func (f *fixture) limits(l queue.Limits, others ...queue.Group) *fixture {
	f.obs.Queue = &Queue{Limits: l, Groups: others}
	return f
}

func messageOf(a Action, predicate string) string {
	if i := slices.IndexFunc(a.Holds, func(h Hold) bool { return h.Predicate == predicate }); i >= 0 {
		return a.Holds[i].Message
	}
	return ""
}

// TestR158_WhatWaitsForAnotherGroup: voluntary steps and the first creation, and nothing that repairs or was requested.
func TestR158_WhatWaitsForAnotherGroup(t *testing.T) {
	for name, c := range map[string]struct {
		f    *fixture
		slot string
		held bool
	}{
		"update":            {newFixture(3, "none").want("B"), "db-2", true},
		"update by request": {newFixture(3, "none").want("B").asksFor(RequestUpdate, "db-2", "q"), "db-2", false},
		"restart":           {newFixture(3, "none").asks("db-1", "q"), "db-1", false},
		"repair":            {newFixture(3, "none").heals(1), "db-1", false},
		"first creation":    {creation(2), "db-0", true},
		"another slot":      {func() *fixture { f := newFixture(3, "none"); f.spec.Replicas = 4; return f }(), "db-3", false},
		"scale-in":          {func() *fixture { f := newFixture(3, "none"); f.spec.Replicas = 2; return f }(), "db-2", false},
	} {
		a := actionOf(t, c.f.after("its rollout is RUNNING").plan(), c.slot)
		if got := messageOf(a, HoldAfterGroup); (got != "") != c.held || c.held && got != "waits for group base: its rollout is RUNNING" {
			t.Errorf("%s: held by %q", name, got)
		}
		if p := c.f.after("").plan(); messageOf(actionOf(t, p, c.slot), HoldAfterGroup) != "" {
			t.Errorf("%s: held although base has finished", name)
		}
	}
	f := newFixture(3, "none").want("B").after("")
	f.obs.Predecessors = nil
	if got := messageOf(actionOf(t, f.plan(), "db-2"), HoldAfterGroup); got != "waits for group base: its state is not known yet" {
		t.Errorf("without facts: %q", got)
	}
}

// TestR158_ACycleHoldsNoRepair: it holds the rollout and shows its path.
func TestR158_ACycleHoldsNoRepair(t *testing.T) {
	f := newFixture(3, "none").want("B").heals(1).after("")
	f.obs.Cycle = []string{"db", "base", "db"}
	p := f.plan()
	if got := messageOf(actionOf(t, p, "db-2"), HoldAfterGroup); !strings.Contains(got, "db after base after db") {
		t.Errorf("the update is held by %q", got)
	}
	if a := actionOf(t, p, "db-1"); !a.Execute {
		t.Errorf("the repair is held: %v", a.Holds)
	}
	if !slices.ContainsFunc(p.Status.Conditions, func(c group.Condition) bool { return c.Type == ConditionOrder && !c.Status && c.Reason == "Cycle" }) {
		t.Errorf("no condition names the cycle: %v", p.Status.Conditions)
	}
}

// TestR158_ADeletionGoesInReverse: with and without the CVMs.
func TestR158_ADeletionGoesInReverse(t *testing.T) {
	for _, keep := range []bool{false, true} {
		f := newFixture(2, "none")
		f.obs.Deletion = &Deletion{KeepCVMs: keep}
		f.obs.Followers = []string{"app"}
		p := f.plan()
		if len(executes(p)) > 0 || len(p.Forget) > 0 || p.Gone {
			t.Errorf("keep %v: %s", keep, describe(p))
		}
		f.obs.Followers = nil
		if p := f.plan(); len(executes(p)) == 0 && len(p.Forget) == 0 {
			t.Errorf("keep %v: nothing goes although no group follows: %s", keep, describe(p))
		}
	}
}

// TestR158_WhenAGroupHasFinished: each other state has a text.
func TestR158_WhenAGroupHasFinished(t *testing.T) {
	f := newFixture(3, "none")
	done := group.Status{ObservedIndex: 7, Target: f.spec.Revision(), Replicas: 3, Available: 3, RolloutState: string(operation.Complete)}
	for want, edit := range map[string]func(s *group.Status, spec *group.Spec){
		"":                             func(*group.Status, *group.Spec) {},
		"the leader has not evaluated": func(s *group.Status, _ *group.Spec) { s.ObservedIndex = 6 },
		"its newest spec yet":          func(s *group.Status, _ *group.Spec) { s.Target = "old" },
		"its rollout failed":           func(s *group.Status, _ *group.Spec) { s.RolloutState = string(operation.FailedState) },
		"its rollout is PAUSED":        func(s *group.Status, _ *group.Spec) { s.RolloutState = string(operation.PausedState) },
		"it is stopped by its spec":    func(_ *group.Status, spec *group.Spec) { spec.Stopped = true },
		"2 of 3 slots are available":   func(s *group.Status, _ *group.Spec) { s.Available = 2 },
	} {
		s, spec := done, f.spec
		edit(&s, &spec)
		if got := Unfinished(spec, 7, s); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestR98_WhatWaitsAtALimit: steps of rollouts and creations, and nothing that repairs or was requested.
func TestR98_WhatWaitsAtALimit(t *testing.T) {
	full := queue.Group{Name: "web", Priority: 50, Steps: 2, Creations: 2, Place: queue.Place{Rollout: true}}
	for name, c := range map[string]struct {
		f    *fixture
		slot string
		want string
	}{
		"update":            {newFixture(3, "none").want("B"), "db-2", "the cluster limit steps = 2 is used by web (2)"},
		"update by request": {newFixture(3, "none").want("B").asksFor(RequestUpdate, "db-2", "q"), "db-2", ""},
		"restart":           {newFixture(3, "none").asks("db-1", "q"), "db-1", ""},
		"replacement":       {newFixture(3, "none").asksFor(RequestReplace, "db-1", "q"), "db-1", ""},
		"repair":            {newFixture(3, "none").heals(1), "db-1", ""},
		"broken and old":    {newFixture(3, "none").want("B").stopped(1), "db-1", ""},
		"creation":          {creation(2), "db-0", "the cluster limit creations = 2 is used by web (2)"},
		"scale-in":          {func() *fixture { f := newFixture(3, "none"); f.spec.Replicas = 2; return f }(), "db-2", ""},
	} {
		a := actionOf(t, c.f.limits(queue.Limits{Steps: 2, Creations: 2}, full).plan(), c.slot)
		if got := messageOf(a, HoldClusterLimit); (got != "") != (c.want != "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: held by %q, want %q", name, got, c.want)
		}
	}
	f := newFixture(3, "none").want("B").limits(queue.Limits{Rollouts: 1}, full)
	if got := messageOf(actionOf(t, f.plan(), "db-2"), HoldClusterLimit); !strings.HasPrefix(got, "the cluster limit rollouts = 1 is used by web;") {
		t.Errorf("a second rollout is held by %q", got)
	}
	f.obs.Queue.Unread = "not JSON"
	if got := messageOf(actionOf(t, f.plan(), "db-2"), HoldClusterLimit); !strings.Contains(got, "cannot be read: not JSON") {
		t.Errorf("behind an unreadable record: %q", got)
	}
}

// TestR98_APassBeginsNoMoreThanTheLimit: the steps of one pass count for each other.
func TestR98_APassBeginsNoMoreThanTheLimit(t *testing.T) {
	five := 5
	f := newFixture(6, "none").want("B")
	f.spec.UpdatePolicy.MaxUnavailableFixed = &five
	if n := len(executes(f.plan())); n != 5 {
		t.Fatalf("without limits %d steps begin, want 5: %s", n, describe(f.plan()))
	}
	p := f.limits(queue.Limits{Steps: 3}, queue.Group{Name: "web", Steps: 1, Place: queue.Place{Rollout: true}}).plan()
	if n := len(executes(p)); n != 2 {
		t.Errorf("%d steps begin, want 2: %s", n, describe(p))
	}
	g, ok := p.Place(50)
	if !ok || g.Steps != 2 || !g.Rollout || !g.Step.Ready || g.Step.Since != f.now || !p.Limited() {
		t.Errorf("the group's facts are %+v", g)
	}
	if n := len(executes(creation(4).limits(queue.Limits{Creations: 3}).plan())); n != 3 {
		t.Errorf("%d creations begin, want 3", n)
	}
}

// TestR98_APlaceInTheLineOutlastsAnotherHold: a hold of a moment costs the group no place, but lets the others pass.
func TestR98_APlaceInTheLineOutlastsAnotherHold(t *testing.T) {
	f := newFixture(3, "none").want("B")
	since := f.now.Add(-time.Hour)
	f.rec.Status.Queue = &queue.Place{Step: queue.Wait{Since: since, Ready: true}}
	f.limits(queue.Limits{Steps: 1}) // there is room, and a member is silent
	f.silent(0, f.now.Add(-time.Minute))
	q := f.plan().Status.Queue
	if q.Step.Since != since || q.Step.Ready {
		t.Errorf("held by another hold: %+v", q.Step)
	}
	g := newFixture(3, "none").want("B")
	g.rec.Status.Queue = &queue.Place{Step: queue.Wait{Since: since, Ready: true}}
	g.limits(queue.Limits{Steps: 1})
	q = g.plan().Status.Queue
	if !q.Rollout || !q.Step.Since.After(since) {
		t.Errorf("after a step began: %+v", q)
	}
}

// TestR98_WhoGivesAPlaceUp: a rollout keeps its place between two steps, and not while it waits for a person.
func TestR98_WhoGivesAPlaceUp(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(f *fixture)
		keeps bool
	}{
		"between two steps": {func(f *fixture) { f.silent(0, f.now.Add(-time.Minute)) }, true},
		"at a limit":        {func(f *fixture) { f.obs.Queue.Limits.Steps, f.obs.Queue.Groups[0].Steps = 1, 1 }, true},
		"paused":            {func(f *fixture) { f.obs.Pause = &Override{} }, false},
		"frozen":            {func(f *fixture) { f.obs.Freeze = &Override{} }, false},
		"failed":            {func(f *fixture) { f.rec.Rollout.State = operation.FailedState }, false},
		"behind a gate":     {func(f *fixture) { f.gate(group.Gate{Name: "g", On: []string{group.GateOnStep}}) }, false},
		"after a group":     {func(f *fixture) { f.after("its rollout is RUNNING") }, false},
		"opportunistic":     {func(f *fixture) { f.spec.UpdatePolicy.Type = group.Opportunistic }, false},
		"protected": {func(f *fixture) {
			for i := range f.obs.Slots {
				f.obs.Slots[i].Protection = &Override{}
			}
		}, false},
	} {
		f := newFixture(3, "none").want("B").rolling()
		f.rec.Status.Queue = &queue.Place{Rollout: true}
		f.limits(queue.Limits{Rollouts: 2}, queue.Group{Name: "web", Place: queue.Place{Rollout: true}})
		c.edit(f)
		if p := f.plan(); p.Status.Queue.Rollout != c.keeps {
			t.Errorf("%s: the rollout has a place %v, want %v: %s", name, p.Status.Queue.Rollout, c.keeps, describe(p))
		}
	}
}

// TestR98_TheTurnTakesNoTimeOfTheRollout: neither does the wait for another group.
func TestR98_TheTurnTakesNoTimeOfTheRollout(t *testing.T) {
	for name, edit := range map[string]func(f *fixture){
		"limit": func(f *fixture) {
			f.limits(queue.Limits{Steps: 1}, queue.Group{Name: "web", Steps: 1, Place: queue.Place{Rollout: true}})
		},
		"after": func(f *fixture) { f.after("its rollout is RUNNING") },
	} {
		f := newFixture(3, "none").want("B").rolling()
		f.rec.Rollout.ProgressAt = f.now.Add(-24 * time.Hour)
		edit(f)
		if p := f.plan(); p.Rollout.State != operation.Running {
			t.Errorf("%s: the rollout is %s: %s", name, p.Rollout.State, p.Rollout.Reason)
		}
	}
}

// TestR158_AnOverrideEndsTheDeletion: with and without the CVMs, the Slots are forgotten as well.
func TestR158_AnOverrideEndsTheDeletion(t *testing.T) {
	for _, keep := range []bool{false, true} {
		f := newFixture(1, "none")
		f.obs.Deletion, f.obs.Followers = &Deletion{KeepCVMs: keep}, []string{"app"}
		if !keep {
			f.missing(0)
			f.rec.Slots[0].MissedSince, f.obs.Slots[0].Report = f.now.Add(-time.Hour), nil
		}
		if p := f.plan(); len(p.Forget) > 0 {
			t.Errorf("keep %v: forgets %v before the followers are gone", keep, p.Forget)
		}
		f.obs.HoldOverrides = map[string]*Override{HoldAfterGroup: {Until: f.now.Add(time.Hour), Rollout: CurrentRollout(f.rec.Rollout)}}
		if p := f.plan(); len(p.Forget) != 1 {
			t.Errorf("keep %v: forgets %v", keep, p.Forget)
		}
	}
}
