package upgrade

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var (
	before = Content{ComposeHash: strings.Repeat("a", 64), OSImage: "dstack-0.5.7", InstanceType: "tdx.small", DiskGB: 20}
	wanted = Content{ComposeHash: strings.Repeat("b", 64), OSImage: "dstack-0.5.7", InstanceType: "tdx.small", DiskGB: 20}
)

// cluster is a well cluster of n coordinators with the content before, of which the first leads.
func cluster(n int) Facts {
	f := Facts{Wanted: before, Leader: "coordinator-0", RaftLeader: "coordinator-0"}
	for i := range n {
		f.Coordinators = append(f.Coordinators, Coordinator{Slot: fmt.Sprintf("coordinator-%d", i), Sessions: 5})
	}
	for i := range n {
		f.well(i)
	}
	f.Wanted = wanted
	return f
}

func TestNext(t *testing.T) {
	at := func(i int) string { return fmt.Sprintf("coordinator-%d", i) }
	down := func(c *Coordinator) {
		c.Running, c.StaysDown, c.Status, c.Answers, c.Healthy = false, true, "stopped", false, false
	}
	broken := func(c *Coordinator) { c.Answers, c.Problem, c.Healthy = false, "connection refused", false }
	updated := func(c *Coordinator) { c.Is, c.Proven = wanted, wanted.ComposeHash }
	isolate := func(f *Facts, i int) {
		for j := range f.Coordinators {
			c := &f.Coordinators[j]
			c.Connected = slices.DeleteFunc(slices.Clone(c.Connected), func(s string) bool { return s == at(i) || j == i })
		}
	}
	for name, c := range map[string]struct {
		n      int
		change func(*Facts)
		want   Step // of a Wait and a Stop the action and a part of a reason
	}{
		"the first follower":                  {3, func(*Facts) {}, Step{Action: Change, Slot: at(1)}},
		"the leader of raft after the others": {3, func(f *Facts) { f.RaftLeader = at(1) }, Step{Action: Change, Slot: at(2)}},
		"the leader of raft steps down":       {3, func(f *Facts) { f.RaftLeader = at(1); updated(&f.Coordinators[2]) }, Step{Action: StepDown, Slot: at(1), To: at(0)}},
		"the second follower":                 {3, func(f *Facts) { updated(&f.Coordinators[1]) }, Step{Action: Change, Slot: at(2)}},
		"the leader steps down":               {3, func(f *Facts) { updated(&f.Coordinators[1]); updated(&f.Coordinators[2]) }, Step{Action: StepDown, Slot: at(0), To: at(2)}},
		"the leader of before": {3, func(f *Facts) {
			updated(&f.Coordinators[1])
			updated(&f.Coordinators[2])
			f.Leader, f.RaftLeader = at(2), at(2)
		}, Step{Action: Change, Slot: at(0)}},
		"all changed":                         {3, func(f *Facts) { f.Wanted = before }, Step{Action: Done}},
		"only a bigger disk":                  {3, func(f *Facts) { f.Wanted = before; f.Wanted.DiskGB = 40 }, Step{Action: Change, Slot: at(1)}},
		"only env values":                     {3, func(f *Facts) { f.Wanted = before; f.Coordinators[2].Is.OldEnv = true }, Step{Action: Change, Slot: at(2)}},
		"the leader has old env values":       {3, func(f *Facts) { f.Wanted = before; f.Coordinators[0].Is.OldEnv = true }, Step{Action: StepDown, Slot: at(0), To: at(2)}},
		"it is down with old env values":      {3, func(f *Facts) { f.Wanted = before; f.Coordinators[1].Is.OldEnv = true; down(&f.Coordinators[1]) }, Step{Action: Change, Slot: at(1)}},
		"no leader":                           {3, func(f *Facts) { f.Leader = "" }, Step{Action: Wait, Reasons: []string{"no coordinator holds the lease"}}},
		"a lost CVM":                          {3, func(f *Facts) { f.Coordinators[1] = Coordinator{Slot: at(1)} }, Step{Action: Stop, Reasons: []string{"has no CVM"}}},
		"a server of none":                    {3, func(f *Facts) { f.OtherServers = []string{"coordinator-7"} }, Step{Action: Wait, Reasons: []string{"coordinator-7"}}},
		"another coordinator is broken":       {3, func(f *Facts) { updated(&f.Coordinators[1]); broken(&f.Coordinators[1]) }, Step{Action: Wait, Reasons: []string{"connection refused"}}},
		"the coordinator to change is broken": {3, func(f *Facts) { broken(&f.Coordinators[2]) }, Step{Action: Change, Slot: at(2)}},
		"the way back":                        {3, func(f *Facts) { updated(&f.Coordinators[1]); broken(&f.Coordinators[1]); f.Wanted = before }, Step{Action: Change, Slot: at(1)}},
		"the way back from an isolated one":   {3, func(f *Facts) { updated(&f.Coordinators[1]); isolate(f, 1); f.Wanted = before }, Step{Action: Change, Slot: at(1)}},
		"two are broken":                      {3, func(f *Facts) { broken(&f.Coordinators[1]); broken(&f.Coordinators[2]) }, Step{Action: Wait, Reasons: []string{"coordinator-2"}}},
		"it boots":                            {3, func(f *Facts) { f.Coordinators[1].Running, f.Coordinators[1].Status = false, "updating" }, Step{Action: Wait, Reasons: []string{"is updating"}}},
		"its boot is not seen yet":            {3, func(f *Facts) { f.Coordinators[1].Changing = true }, Step{Action: Wait, Reasons: []string{"has not booted"}}},
		"it is down with the wanted content":  {3, func(f *Facts) { updated(&f.Coordinators[1]); down(&f.Coordinators[1]) }, Step{Action: Start, Slot: at(1)}},
		"it is down with another content":     {3, func(f *Facts) { down(&f.Coordinators[1]) }, Step{Action: Change, Slot: at(1)}},
		"the old process still answers":       {3, func(f *Facts) { f.Coordinators[1].Is = wanted }, Step{Action: Wait, Reasons: []string{"proves compose hash aaaaaaaaaaaa"}}},
		"members are not back":                {3, func(f *Facts) { updated(&f.Coordinators[1]); f.Coordinators[1].Sessions = 4 }, Step{Action: Wait, Reasons: []string{"4 of 5 members"}}},
		"one member of many is missing": {3, func(f *Facts) {
			f.Wanted = before
			f.Coordinators[1].Sessions = 999
			f.Coordinators[0].Sessions = 1000
			f.Coordinators[2].Sessions = 1000
		}, Step{Action: Done}},
		"autopilot is not content":               {3, func(f *Facts) { updated(&f.Coordinators[1]); f.Coordinators[1].Healthy = false }, Step{Action: Wait, Reasons: []string{"autopilot"}}},
		"it has no vote yet":                     {3, func(f *Facts) { updated(&f.Coordinators[1]); f.Coordinators[1].Voter = false }, Step{Action: Wait, Reasons: []string{"no vote"}}},
		"the cluster is halted":                  {3, func(f *Facts) { f.Coordinators[0].Halted = "EPOCH"; f.Coordinators[1].Halted = "EPOCH" }, Step{Action: Wait, Reasons: []string{"is halted"}}},
		"the only coordinator":                   {1, func(*Facts) {}, Step{Action: Change, Slot: at(0)}},
		"the only coordinator is broken":         {1, func(f *Facts) { broken(&f.Coordinators[0]); f.Leader, f.RaftLeader = "", "" }, Step{Action: Change, Slot: at(0)}},
		"unknown values are no differences":      {3, func(f *Facts) { f.Wanted = before; f.Coordinators[1].Is = Content{} }, Step{Action: Done}},
		"the leader itself is the unhealthy one": {3, func(f *Facts) { f.Coordinators[0].Healthy = false }, Step{Action: StepDown, Slot: at(0), To: at(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := cluster(c.n)
			c.change(&f)
			got := Next(f)
			if got.Action == Wait || got.Action == Stop {
				if got.Action != c.want.Action || len(c.want.Reasons) == 0 || !strings.Contains(strings.Join(got.Reasons, "\n"), c.want.Reasons[0]) {
					t.Errorf("%+v, want %+v", got, c.want)
				}
				return
			}
			got.Reasons = nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestPlanShowsEachStep(t *testing.T) {
	var got []string
	for _, s := range Plan(cluster(3)) {
		got = append(got, fmt.Sprintf("%s %s", s.Action, s.Slot))
	}
	want := []string{"change coordinator-1", "change coordinator-2", "step down coordinator-0", "change coordinator-0", "done "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// random is a cluster in any state. Each coordinator is well with a chance, so that all kinds of step
// are met.
func random(r *rand.Rand) Facts {
	f := cluster([]int{1, 3, 5}[r.IntN(3)])
	some := func(n int) bool { return r.IntN(n) == 0 }
	for i := range f.Coordinators {
		c := &f.Coordinators[i]
		if some(2) {
			c.Is, c.Proven = wanted, wanted.ComposeHash
		}
		c.Is.OldEnv = some(4)
		if !some(3) {
			continue
		}
		c.Running, c.StaysDown = some(2), some(2)
		c.Answers, c.Healthy, c.Voter, c.Changing = some(2), some(2), !some(4), some(4)
		c.Exists, c.Sessions = !some(12), r.IntN(6)
		if some(4) {
			c.Proven = wanted.ComposeHash
		}
		if some(4) {
			c.BootError = "no image"
		}
		if some(4) {
			c.Connected = nil
		}
	}
	f.Leader, f.RaftLeader = f.Coordinators[r.IntN(len(f.Coordinators))].Slot, f.Coordinators[r.IntN(len(f.Coordinators))].Slot
	if some(8) {
		f.Leader = ""
	}
	return f
}

// TestCTL24_NoStepDisruptsWhileAnotherCoordinatorIsUnwell takes random states.
func TestCTL24_NoStepDisruptsWhileAnotherCoordinatorIsUnwell(t *testing.T) {
	met := map[Action]int{}
	for seed := range uint64(20_000) {
		f := random(rand.New(rand.NewPCG(seed, 1)))
		step := Next(f)
		met[step.Action]++
		if step.Action == Wait && len(step.Reasons) == 0 || step.Action == Stop && len(step.Reasons) == 0 {
			t.Fatalf("seed %d: %s without a reason", seed, step.Action)
		}
		for _, c := range f.Coordinators {
			unwell := f.Unwell(c)
			switch {
			case step.Action == Done && (len(unwell) > 0 || len(c.Is.Changes(f.Wanted)) > 0):
				t.Fatalf("seed %d: done, and %s is not: %v", seed, c.Slot, unwell)
			case step.Action != Change && step.Action != StepDown && step.Action != Start:
			case c.Slot != step.Slot && len(unwell) > 0:
				t.Fatalf("seed %d: %s of %s while %v", seed, step.Action, step.Slot, unwell)
			case c.Slot == step.Slot && step.Action == Change && len(c.Is.Changes(f.Wanted)) == 0:
				t.Fatalf("seed %d: %s changes to what it is", seed, c.Slot)
			case c.Slot == step.Slot && step.Action == Change && len(f.Coordinators) > 1 && c.Answers && f.Leader == c.Slot:
				t.Fatalf("seed %d: %s is taken down while it leads", seed, c.Slot)
			}
		}
	}
	for _, a := range []Action{Done, Wait, Stop, StepDown, Change, Start} {
		if met[a] == 0 {
			t.Errorf("no state led to %s: %v", a, met)
		}
	}
}

// TestPlansEnd: from any state whose steps have their effect, an upgrade ends, and it changes each
// coordinator once at most.
func TestPlansEnd(t *testing.T) {
	for seed := range uint64(20_000) {
		steps := Plan(random(rand.New(rand.NewPCG(seed, 2))))
		changed := map[string]int{}
		for _, s := range steps {
			if s.Action == Change {
				if changed[s.Slot]++; changed[s.Slot] > 1 {
					t.Fatalf("seed %d: %s changes again: %+v", seed, s.Slot, steps)
				}
			}
		}
		switch last := steps[len(steps)-1]; last.Action {
		case Done, Wait, Stop:
		default:
			t.Fatalf("seed %d: no end: %+v", seed, steps)
		}
	}
}

func TestMayReplace(t *testing.T) {
	lost := func(change func(*Facts)) Facts {
		f := cluster(3)
		f.Wanted = before
		f.Coordinators[1] = Coordinator{Slot: "coordinator-1", Exists: true, Status: "running", Running: true, Is: before, Problem: "no disk"}
		change(&f)
		return f
	}
	one := cluster(1)
	for name, c := range map[string]struct {
		f    Facts
		slot string
		want string // a part of a reason; "": it may
	}{
		"a lost disk":           {lost(func(*Facts) {}), "coordinator-1", ""},
		"a lost CVM":            {lost(func(f *Facts) { f.Coordinators[1] = Coordinator{Slot: "coordinator-1"} }), "coordinator-1", ""},
		"a well one":            {lost(func(f *Facts) { f.well(1) }), "coordinator-1", "is well"},
		"another one is unwell": {lost(func(f *Facts) { f.Coordinators[2].Healthy = false }), "coordinator-1", "coordinator-2 is unhealthy"},
		"the wrong one":         {lost(func(*Facts) {}), "coordinator-2", "coordinator-2 is well"},
		"no such one":           {lost(func(*Facts) {}), "coordinator-3", "no coordinator"},
		"the only one":          {one, "coordinator-0", "only coordinator"},
		"another version":       {lost(func(f *Facts) { f.Wanted = wanted }), "coordinator-1", "use the file that the coordinators run"},
	} {
		t.Run(name, func(t *testing.T) {
			got := MayReplace(c.f, c.slot)
			if (len(got) == 0) != (c.want == "") || !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
