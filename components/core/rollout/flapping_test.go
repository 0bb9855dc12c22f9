package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// flapped sets the transitions in the record of ordinal i to the given times before now.
func (f *fixture) flapped(i int, ago ...time.Duration) *fixture {
	f.rec.Slots[i].Flaps = nil
	for _, d := range ago {
		f.rec.Slots[i].Flaps = append(f.rec.Slots[i].Flaps, f.now.Add(-d))
	}
	return f
}

// flapping makes ordinal i ready for the given duration, after its fourth transition.
func (f *fixture) flapping(i int, ready time.Duration) *fixture {
	f.flapped(i, 8*time.Minute, 6*time.Minute, 4*time.Minute, ready+time.Minute)
	f.rec.Slots[i].AvailableSince = f.now.Add(-ready)
	return f
}

func (f *fixture) stateOf(i int) (group.SlotState, string) {
	s := f.plan().Status.Instances[i]
	return s.State, s.Reason
}

func TestR9_AnUnexplainedEndOfReadinessCounts(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want int
	}{
		"the report says so":       {func(f *fixture) { f.sick(1) }, 2},
		"it stopped":               {func(f *fixture) { f.obs.Slots[1].Instance.Status = "stopped" }, 2},
		"it is silent":             {func(f *fixture) { f.obs.Slots[1].Report = nil }, 2}, // until a report proves otherwise
		"it stays ready":           {func(*fixture) {}, 1},
		"the platform is silent":   {func(f *fixture) { f.blind("the platform").obs.Slots[1].Instance = nil }, 1},
		"it was not ready before":  {func(f *fixture) { f.sick(1).rec.Slots[1].AvailableSince = time.Time{} }, 1},
		"in a step":                {func(f *fixture) { f.sick(1).restarting(1) }, 1},
		"nobody leads for all":     {func(f *fixture) { f.leaderless() }, 1},
		"others are long ago":      {func(f *fixture) { f.sick(1).flapped(1, 11*time.Minute) }, 1},
		"others are yet to come":   {func(f *fixture) { f.sick(1).flapped(1, -time.Minute) }, 1},
		"its leader hands over":    {func(f *fixture) { f.lagging(1, 100).handingOver() }, 1},
		"down while one does that": {func(f *fixture) { f.sick(1).handingOver() }, 2},
	} {
		f := newFixture(3, "patroni").flapped(1, 5*time.Minute)
		c.edit(f)
		if got := f.plan().Slots[1].Flaps; len(got) != c.want {
			t.Errorf("%s: %d transitions, want %d", name, len(got), c.want)
		}
	}
}

// restarting puts ordinal i into a step of its own.
func (f *fixture) restarting(i int) {
	f.rec.Operations = append(f.rec.Operations, operation.Operation{
		ID: "db-1.1.x", Group: "db", Slot: f.rec.Slots[i].Slot, Kind: operation.Restart, Actor: operation.ActorOperator, Phase: operation.Booting,
		To: f.rec.Slots[i].Assigned, CVM: operation.CVM{VMUUID: f.rec.Slots[i].VMUUID}, Call: operation.Call{Number: 1, IssuedAt: f.now.Add(-time.Minute)}, Times: operation.Times{Created: f.now.Add(-time.Minute)},
	})
}

// handingOver puts the leader into a step that transfers leadership.
func (f *fixture) handingOver() {
	f.restarting(0)
	f.rec.Operations[len(f.rec.Operations)-1].Transfer = &operation.Transfer{ExpectedLeader: "db-0", Candidates: []string{"db-2"}}
}

// leaderless makes all members alive and without a leader.
func (f *fixture) leaderless() {
	for i := range f.obs.Slots {
		r := f.obs.Slots[i].Report
		r.Role, r.Leader, r.MemberReady, r.Health = RoleFollower, "", false, Unhealthy
	}
}

func TestR9_AnOutageThatTheReportDisprovesIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want int
	}{
		"well all the time":   {func(*fixture) {}, 1},
		"another boot":        {func(f *fixture) { f.rec.Slots[1].AvailableBoot = "boot-before" }, 2},
		"a break":             {func(f *fixture) { f.obs.Slots[1].Report.HealthyFor = 10 * time.Second }, 2},
		"no proof":            {func(f *fixture) { f.obs.Slots[1].Report.HealthyFor = 0 }, 2},
		"not this one's time": {func(f *fixture) { f.rec.Slots[1].UnavailableSince = f.now.Add(-time.Minute) }, 2},
	} {
		f := newFixture(3, "none").flapped(1, 5*time.Minute, 30*time.Second)
		f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now.Add(-30*time.Second)
		c.edit(f)
		if got := f.plan().Slots[1].Flaps; len(got) != c.want {
			t.Errorf("%s: %d transitions, want %d", name, len(got), c.want)
		}
	}
}

func TestR9_HowLongItIsHeldBack(t *testing.T) {
	for _, c := range []struct {
		minReady int
		ready    time.Duration
		want     group.SlotState
	}{
		{30, 59 * time.Second, group.SlotFlapping}, {30, time.Minute, group.SlotAvailable},
		{0, 59 * time.Second, group.SlotFlapping}, {0, time.Minute, group.SlotAvailable},
		{300, 599 * time.Second, group.SlotFlapping}, {300, 600 * time.Second, group.SlotAvailable},
	} {
		f := newFixture(3, "none").flapping(1, c.ready)
		f.spec.UpdatePolicy.MinReadySeconds = &c.minReady
		if got, reason := f.stateOf(1); got != c.want {
			t.Errorf("min_ready %d, ready for %s: %s (%s), want %s", c.minReady, c.ready, got, reason, c.want)
		}
	}
	if got, _ := newFixture(3, "none").flapping(1, time.Second).flapped(1, 3*time.Minute, 2*time.Minute, time.Minute).stateOf(1); got != group.SlotSettling {
		t.Errorf("three transitions: %s", got)
	}
}

func TestR9_TheStatusAndTheWakeHaveTheEndOfFlapping(t *testing.T) {
	f := newFixture(3, "none").flapping(1, 40*time.Second)
	f.t.StaleAfter = time.Hour
	p := f.plan()
	if s := p.Status.Instances[1]; s.State != group.SlotFlapping || !strings.HasSuffix(s.Reason, "20s left") {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
	flaps := slices.IndexFunc(p.Status.Conditions, func(c group.Condition) bool { return c.Type == ConditionFlapping })
	if flaps < 0 || !strings.HasPrefix(p.Status.Conditions[flaps].Message, "db-1: ") {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}
	if p.Status.Available != 2 || !p.Wake.Equal(f.now.Add(20*time.Second)) {
		t.Errorf("%d available, wakes at %s", p.Status.Available, p.Wake)
	}
	if again := f.plan(); !slices.Equal(again.Slots[1].Flaps, f.rec.Slots[1].Flaps) {
		t.Error("a pass without a transition writes the record")
	}
}

func TestR9_NoOtherStepBeginsWhileAMemberFlaps(t *testing.T) {
	f := newFixture(3, "none").want("B").at(2, "B").at(1, "B").flapping(1, 40*time.Second)
	p := f.plan()
	if got := executes(p); len(got) > 0 {
		t.Errorf("begins %v", got)
	}
	if a := p.Actions[0]; a.Slot != "db-0" || !strings.Contains(a.Holds[0].Message, "db-1 (flapping until "+f.now.Add(20*time.Second).Format(time.RFC3339)+") is not available") {
		t.Errorf("action %+v", a)
	}
	// The flapping member itself is updated: the update may cure it.
	f = newFixture(3, "none").want("B").flapping(1, 40*time.Second)
	if got := executes(f.plan()); len(got) != 1 || got[0] != "UPDATE db-1" {
		t.Errorf("begins %v", got)
	}
}

func TestR9_ASteadyMemberTakesOverBeforeAFlappingOne(t *testing.T) {
	leader := func(f *fixture) []string {
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		slots, _ := w.transferCandidates(candidate{m: w.find("db-0"), kind: operation.Drain, condition: well})
		return slots
	}
	if got := leader(newFixture(3, "patroni").flapping(1, 40*time.Second)); !slices.Equal(got, []string{"db-2"}) {
		t.Errorf("beside one that is steady: %v", got)
	}
	if got := leader(newFixture(3, "patroni").flapping(1, 40*time.Second).sick(2)); !slices.Equal(got, []string{"db-1"}) {
		t.Errorf("nobody else is well: %v", got)
	}
	if got := leader(newFixture(3, "patroni").flapping(1, 20*time.Second).sick(2)); len(got) > 0 {
		t.Errorf("it is in its min_ready: %v", got)
	}
}

func TestR9_AnotherCVMHasNoTransitions(t *testing.T) {
	f := newFixture(3, "none").flapping(1, time.Second)
	if r := f.rec.Slots[1].Unbound("replaced", f.now); len(r.Flaps) > 0 {
		t.Errorf("it has the transitions of the one before: %v", r.Flaps)
	}
}

func TestR9_TheRecordIsBounded(t *testing.T) {
	f := newFixture(3, "none").sick(1)
	for i := range 20 {
		f.rec.Slots[1].Flaps = append(f.rec.Slots[1].Flaps, f.now.Add(time.Duration(i-30)*time.Second))
	}
	if got := f.plan().Slots[1].Flaps; len(got) != keptFlaps || !got[keptFlaps-1].Equal(f.now) {
		t.Errorf("%v", got)
	}
}

// Transitions that ended long ago do not make a later step, outage or election a case of flapping.
func TestR9_AnOldTransitionDoesNotCount(t *testing.T) {
	before := func(edit func(*fixture)) *fixture {
		f := newFixture(3, "none").flapped(1, 68*time.Minute, 66*time.Minute, 64*time.Minute, time.Hour)
		edit(f)
		return f
	}
	for name, c := range map[string]struct {
		edit func(*fixture)
		want group.SlotState
	}{
		"it is back from a step":   {func(f *fixture) { f.rec.Slots[1].AvailableSince = f.now.Add(-time.Second) }, group.SlotSettling},
		"it is available by now":   {func(f *fixture) { f.rec.Slots[1].AvailableSince = f.now.Add(-50 * time.Second) }, group.SlotAvailable},
		"it is back at this pass":  {func(f *fixture) { f.rec.Slots[1].AvailableSince = time.Time{} }, group.SlotSettling},
		"it is down, and not anew": {func(f *fixture) { f.sick(1).rec.Slots[1].AvailableSince = time.Time{} }, group.SlotUnavailable},
		"in its step":              {func(f *fixture) { f.sick(1).restarting(1) }, group.SlotBooting},
		"in one right after them":  {func(f *fixture) { f.flapping(1, time.Minute).sick(1).restarting(1) }, group.SlotBooting},
	} {
		p := before(c.edit).plan()
		if s := p.Status.Instances[1]; s.State != c.want {
			t.Errorf("%s: %s (%s), want %s", name, s.State, s.Reason, c.want)
		}
		for _, one := range p.Status.Conditions {
			if one.Type == ConditionFlapping {
				t.Errorf("%s: %s", name, one.Message)
			}
		}
	}
}

func TestR9_TheRecordForgetsThem(t *testing.T) {
	for name, c := range map[string]struct {
		last, ready time.Duration
		want        int
	}{
		"they count yet":      {10 * time.Minute, 9 * time.Minute, 2},
		"none counts":         {11 * time.Minute, 10 * time.Minute, 0},
		"it is not available": {11 * time.Minute, time.Second, 2},
	} {
		f := newFixture(3, "none").flapped(1, 12*time.Minute, c.last)
		f.rec.Slots[1].AvailableSince = f.now.Add(-c.ready)
		if got := f.plan().Slots[1].Flaps; len(got) != c.want {
			t.Errorf("%s: %d transitions, want %d", name, len(got), c.want)
		}
	}
}

// A flapping member serves, and so does a member in its min_ready. A step that takes it away needs the same
// permission as for an available member.
func TestR9_AStepOfAFlappingMemberNeedsPermission(t *testing.T) {
	for state, ready := range map[string]func(f *fixture){
		"flaps":     func(f *fixture) { f.flapping(0, 40*time.Second) },
		"min_ready": func(f *fixture) { f.rec.Slots[0].AvailableSince = f.now.Add(-time.Second) },
	} {
		for predicate, edit := range map[string]func(f *fixture){
			HoldMayDisrupt:   func(f *fixture) { f.obs.Slots[0].Report.MayDisrupt = false },
			HoldBusy:         func(f *fixture) { f.obs.Slots[0].Report.Busy = []string{"a backup runs"} },
			HoldInterruption: func(f *fixture) { f.spec.UpdatePolicy.Interruption = group.InterruptionRefuse },
		} {
			f := newFixture(1, "patroni").want("B").rolling()
			ready(f)
			edit(f)
			if p := f.plan(); len(executes(p)) > 0 || !actionOf(t, p, "db-0").HeldBy(predicate) {
				t.Errorf("%s, %s: begins %v\n%s", state, predicate, executes(p), describe(p))
			}
			ill := newFixture(1, "patroni").want("B").rolling()
			edit(ill)
			wantNotHeld(t, ill.sick(0).plan(), "db-0", predicate)
		}
	}
}
