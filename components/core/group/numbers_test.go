package group

import (
	"strings"
	"testing"
	"time"
)

func sized(n int, edit func(*UpdatePolicy)) Spec {
	s := Spec{Replicas: n}
	edit(&s.UpdatePolicy)
	s.Normalize()
	return s
}

func TestR12_PercentIsOfTheSpecsSize(t *testing.T) {
	for n, want := range map[int]int{4: 2, 8: 4, 100: 50} {
		s := sized(n, func(p *UpdatePolicy) { p.MaxUnavailablePercent = ptr(50) })
		if got := MaxUnavailable(s); got != want {
			t.Errorf("50%% of %d = %d, want %d", n, got, want)
		}
	}
}

func TestR13_PercentRoundsDownWithFloorOne(t *testing.T) {
	for _, c := range []struct{ percent, size, want int }{
		{20, 4, 1}, {50, 5, 2}, {34, 9, 3}, {100, 7, 7}, {1, 100, 1}, {99, 3, 2}, {1, 1, 1},
	} {
		s := sized(c.size, func(p *UpdatePolicy) { p.MaxUnavailablePercent = ptr(c.percent) })
		if got := MaxUnavailable(s); got != c.want {
			t.Errorf("%d%% of %d = %d, want %d", c.percent, c.size, got, c.want)
		}
	}
}

func TestR13_FixedIsClampedToTheSize(t *testing.T) {
	for _, c := range []struct{ fixed, size, want int }{{1, 3, 1}, {5, 3, 3}, {0, 3, 0}, {-1, 3, 0}} {
		s := sized(c.size, func(p *UpdatePolicy) { p.MaxUnavailableFixed = ptr(c.fixed) })
		if got := MaxUnavailable(s); got != c.want {
			t.Errorf("%d of %d = %d, want %d", c.fixed, c.size, got, c.want)
		}
	}
}

func TestR14_MaxSurge(t *testing.T) {
	for _, c := range []struct {
		fixed *int
		want  int
	}{{nil, 0}, {ptr(0), 0}, {ptr(2), 2}, {ptr(-1), 0}} {
		s := goodSpec()
		s.UpdatePolicy.MaxSurgeFixed = c.fixed
		if got := MaxSurge(s); got != c.want {
			t.Errorf("%v: %d extra slots, want %d", c.fixed, got, c.want)
		}
	}
	for _, c := range []struct{ percent, size, want int }{
		{10, 4, 1}, {0, 4, 0}, {25, 4, 1}, {26, 4, 2}, {100, 7, 7}, {1, 100, 1}, {1, 101, 2}, {50, 1, 1}, {50, 0, 0}, {-1, 4, 0},
	} {
		s := Spec{Replicas: c.size, UpdatePolicy: UpdatePolicy{MaxSurgePercent: ptr(c.percent)}}
		if got := MaxSurge(s); got != c.want {
			t.Errorf("%d%% of %d: %d extra slots, want %d", c.percent, c.size, got, c.want)
		}
	}
}

func TestR17_VoterCap(t *testing.T) {
	for _, c := range []struct {
		voters, budget int
		parallel       bool
		want           int
	}{
		{1, 1, false, 0}, {2, 1, false, 0}, {3, 2, false, 1}, {4, 2, true, 1}, {7, 3, false, 1}, {7, 3, true, 3}, {7, 2, true, 2}, {9, 9, true, 4},
	} {
		s := sized(max(c.voters, c.budget), func(p *UpdatePolicy) {
			p.MaxUnavailableFixed, p.ParallelVoters = ptr(c.budget), c.parallel
		})
		if got := VoterCap(s, c.voters); got != c.want {
			t.Errorf("V=%d max_unavailable=%d parallel=%t: cap %d, want %d", c.voters, c.budget, c.parallel, got, c.want)
		}
	}
}

func TestR79_DrainDeadlineHoldsEveryHooksAbsoluteCap(t *testing.T) {
	s := Spec{Replicas: 1, LifecycleHooks: []LifecycleHook{
		{Name: "a", Transition: PreTerminate, MaxDuration: minutes(10)},
		{Name: "b", Transition: PreTerminate, MaxDuration: minutes(5)},
		{Name: "c", Transition: PostLaunch, MaxDuration: minutes(50)},
	}}
	if got := DrainDeadline(s); got != 15*time.Minute+transferAllowance {
		t.Errorf("drain deadline %s", got)
	}
}

func TestDefaultProgressDeadlineIsNeverRefused(t *testing.T) {
	for _, healthy := range []Duration{Duration(40 * time.Second), minutes(2), minutes(10), minutes(600)} {
		s := goodSpec()
		s.UpdatePolicy.HealthyDeadline, s.UpdatePolicy.ProgressDeadline = healthy, 0
		if got := problems(t, s); got != nil {
			t.Errorf("healthy_deadline %s: %v", healthy, got)
		}
	}
}

// TestR147_NoReplicasNamesTheStop: an operator who wants no slot to run learns how to keep the disks.
func TestR147_NoReplicasNamesTheStop(t *testing.T) {
	s := goodSpec()
	s.Replicas = 0
	if all := problems(t, s); len(all) != 1 || !strings.Contains(all[0], "stopped = true") {
		t.Errorf("problems %v", all)
	}
	was, now := goodSpec(), goodSpec()
	if now.Stopped = true; was.Revision() != now.Revision() {
		t.Error("a stop makes another revision")
	}
	if changes := Changes(was, now); len(Exceeding(changes, ActionNone)) > 0 {
		t.Errorf("a stop costs a step of a rollout: %v", changes)
	}
}
