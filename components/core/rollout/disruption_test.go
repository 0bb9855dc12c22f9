package rollout

import (
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// recorded adds the content to the fixture's Revisions, as the leader records it.
func (f *fixture) recorded() *fixture {
	for digest, r := range f.rec.Revisions {
		for _, name := range []string{"A", "B", "C"} {
			if digest == revisionOf(f.spec, name) {
				r.Template, r.AgentSpec = f.spec.Template, f.spec.AgentSpec()
				r.Template.Compose = compose(name)
				f.rec.Revisions[digest] = r
			}
		}
	}
	return f
}

func TestR132_ASlotThatMayNotBeTouchedHoldsTheRollout(t *testing.T) {
	f := newFixture(3, "none").recorded().want("B").rolling()
	f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh
	p := f.plan()
	wantExecutes(t, p)
	for _, slot := range f.spec.Members() {
		wantHeld(t, p, slot, HoldActionNotAllowed)
	}
	if text := actionOf(t, p, "db-2").Holds[0].Message; !strings.Contains(text, "RESTART (template.compose)") || !strings.Contains(text, "cadre instance update db-2") {
		t.Errorf("the hold does not say what it takes and the way out: %s", text)
	}
	// The wait for an operator does not count towards the rollout's deadline.
	f.now = f.now.Add(100 * group.ProgressDeadline(f.spec))
	f.obs.At = f.now
	for i := range f.obs.Slots {
		f.obs.Slots[i].Report.ReceivedAt = f.now
	}
	if p := f.plan(); p.Rollout.State != operation.Running {
		t.Errorf("the rollout is %s: %s", p.Rollout.State, p.Rollout.Reason)
	}
	wantExecutes(t, f.asksFor(RequestUpdate, "db-1", "q1").plan(), "UPDATE db-1")
}

func TestR132_AMemberIsHealedDespiteATooDisruptiveUpdate(t *testing.T) {
	f := newFixture(3, "none").recorded().want("B").rolling()
	f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh
	f.spec.AutoHealing = &group.AutoHealing{}
	wantExecutes(t, f.stopped(1).plan(), "RESTART db-1")
}

func TestR146_ThePlanNamesItsChangesAndTheirCost(t *testing.T) {
	f := newFixture(3, "none").recorded().want("B").rolling()
	f.spec.Template.Env = map[string]string{"X": "1"}
	p := f.plan()
	for _, a := range p.Actions {
		if a.Takes != group.ActionRestart {
			t.Errorf("%s takes %q", a.Slot, a.Takes)
		}
	}
	if len(p.Moves) != 1 || p.Moves[0].From != actionOf(t, p, "db-0").From || p.Moves[0].To != p.Target {
		t.Fatalf("moves %+v, want the one from A to the target", p.Moves)
	}
	var paths []string
	for _, c := range p.Moves[0].Changes {
		paths = append(paths, c.String())
	}
	if got := strings.Join(paths, ", "); got != "template.compose (RESTART), template.env.X (RESTART)" {
		t.Errorf("it changes %s", got)
	}
}

// TestR132_ACorrectedCheckTakesARefresh: a running Boot with a working process proves the corrected check. A boot
// heals a failing check that the edit leaves unchanged, and a process that is down.
func TestR132_ACorrectedCheckTakesARefresh(t *testing.T) {
	for name, c := range map[string]struct {
		kind    string
		failing []string
		sick    bool
		want    group.UpdateAction
	}{
		"the check that fails is corrected": {"none", []string{"ready"}, false, group.ActionRefresh},
		"of a database that works":          {"patroni", []string{"ready"}, false, group.ActionRefresh},
		"another check fails":               {"none", []string{"live"}, false, group.ActionRestart},
		"another one fails too":             {"none", []string{"ready", "live"}, false, group.ActionRestart},
		"no check fails, and it is ill":     {"none", nil, false, group.ActionRestart},
		"the process is down":               {"patroni", []string{"ready"}, true, group.ActionRestart},
	} {
		f := newFixture(3, c.kind)
		check := func(name string, port int) group.HealthCheck {
			return group.HealthCheck{Name: name, TCP: &group.TCPCheck{Port: port}}
		}
		f.spec.HealthChecks = []group.HealthCheck{check("ready", 80), check("live", 80)}
		f.spec.Normalize()
		settle(f).noteRevision()
		f.spec.HealthChecks = []group.HealthCheck{check("ready", 81), check("live", 80)}
		f.spec.Normalize()
		f.noteRevision()
		f.rolling()
		if c.sick {
			f.sick(1)
		}
		r := f.obs.Slots[1].Report
		r.Health, r.HealthReason, r.Failing = Unhealthy, "it is ill", c.failing
		if got := actionOf(t, f.plan(), "db-1").Takes; got != c.want {
			t.Errorf("%s: takes %q, want %q\n%s", name, got, c.want, describe(f.plan()))
		}
	}
}

// TestR132_ACVMThatWasGivenOtherContentIsNotRefreshed: its next boot may run that content, so the running Boot proves
// too little.
func TestR132_ACVMThatWasGivenOtherContentIsNotRefreshed(t *testing.T) {
	for assigned, want := range map[string]group.UpdateAction{"": group.ActionRefresh, "C": group.ActionRestart} {
		f := newFixture(3, "none")
		f.spec.HealthChecks = []group.HealthCheck{{Name: "ready", TCP: &group.TCPCheck{Port: 80}}}
		f.spec.Normalize()
		settle(f).noteRevision()
		f.spec.HealthChecks = []group.HealthCheck{{Name: "ready", TCP: &group.TCPCheck{Port: 81}}}
		f.spec.Normalize()
		f.noteRevision()
		f.rolling()
		if assigned != "" {
			f.rec.Slots[1].Assigned = revisionOf(f.spec, assigned)
		}
		if got := actionOf(t, f.plan(), "db-1").Takes; got != want {
			t.Errorf("given %q: takes %q, want %q", assigned, got, want)
		}
	}
}
