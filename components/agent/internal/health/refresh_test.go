package health

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/raced/synctest"
)

// workload answers commands as configured, and counts them.
type workload struct {
	mu    sync.Mutex
	ill   map[string]bool
	asked map[string]int
	takes time.Duration // of each command
}

func (w *workload) Run(_ context.Context, a group.ExecAction, _ []string, limit time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[a.Command]++
	if w.ill[a.Command] || limit < w.takes {
		return errors.New("no")
	}
	return nil
}

func (w *workload) is(command string, ill bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ill[command] = ill
}

// times that a command was asked for.
func (w *workload) times(command string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[command]
}

// running is a Checker in a bubble, with all its results.
type running struct {
	*Checker
	*workload

	reports *selfreport.Registry
	mu      sync.Mutex
	lapse   []Result // the failures since the last lapsed
}

// bubble runs f with the checks of one process, in virtual time.
func bubble(t *testing.T, f func(t *testing.T, r *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &running{workload: &workload{ill: map[string]bool{}, asked: map[string]int{}}, reports: selfreport.New()}
		r.Checker = NewChecker(r.workload, r.reports, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = r.Checker.Run(ctx) })
		all.Go(func() { _ = r.reports.Run(ctx) })
		all.Go(func() {
			var index uint64
			for {
				_, now, err := r.Changes().Wait(ctx, index)
				if err != nil {
					return
				}
				index = now
				for _, one := range r.Results() {
					if one.Health != rollout.Healthy && !one.Pending {
						r.mu.Lock()
						r.lapse = append(r.lapse, one)
						r.mu.Unlock()
					}
				}
			}
		})
		defer all.Wait()
		defer cancel()
		f(t, r)
	})
}

func (r *running) set(checks ...group.HealthCheck) {
	r.SetChecks(checks) // in the order of the agent
	r.reports.Set(selfreport.OfChecks(checks))
}

// lapsed returns the results that counted against the member since the last call.
func (r *running) lapsed() []Result {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.lapse
	r.lapse = nil
	return out
}

// wants compares names, healths and pending results, in order.
func (r *running) wants(t *testing.T, when string, want ...Result) {
	t.Helper()
	synctest.Wait()
	got := r.Results()
	for i := range got {
		got[i] = Result{Name: got[i].Name, Health: got[i].Health, Pending: got[i].Pending}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %+v, want %+v", when, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: %+v, want %+v", when, got[i], want[i])
		}
	}
}

func well(name string) Result    { return Result{Name: name, Health: rollout.Healthy} }
func ill(name string) Result     { return Result{Name: name, Health: rollout.Unhealthy} }
func unknown(name string) Result { return Result{Name: name, Health: rollout.Unknown} }
func pending(name string) Result {
	return Result{Name: name, Health: rollout.Unknown, Pending: true}
}

// of is an exec check that asks for a command.
func of(name, command string) group.HealthCheck {
	return group.HealthCheck{Name: name, Exec: &group.ExecAction{Service: "db", Command: command}, CheckIntervalSec: 10}
}

func TestARefreshOfTheChecksOfAWellMember(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []group.HealthCheck
		// at are the results just after the change, ended those a minute later; ill are failing
		// commands.
		at, ended []Result
		ill       string
	}{
		"one comes":                {[]group.HealthCheck{of("a", "a")}, []group.HealthCheck{of("a", "a"), of("b", "b")}, []Result{well("a"), pending("b")}, []Result{well("a"), well("b")}, ""},
		"the first one comes":      {[]group.HealthCheck{}, []group.HealthCheck{of("b", "b")}, []Result{pending("b")}, []Result{well("b")}, ""},
		"a failing check is added": {[]group.HealthCheck{of("a", "a")}, []group.HealthCheck{of("b", "b"), of("a", "a")}, []Result{pending("b"), well("a")}, []Result{ill("b"), well("a")}, "b"},
		"one goes":                 {[]group.HealthCheck{of("a", "a"), of("b", "b")}, []group.HealthCheck{of("b", "b")}, []Result{well("b")}, []Result{well("b")}, ""},
		"all go":                   {[]group.HealthCheck{of("a", "a")}, nil, nil, nil, ""},
		"one has another name":     {[]group.HealthCheck{of("a", "a")}, []group.HealthCheck{of("b", "a")}, []Result{pending("b")}, []Result{well("b")}, ""},
		"one asks for another":     {[]group.HealthCheck{of("a", "a")}, []group.HealthCheck{of("a", "b")}, []Result{pending("a")}, []Result{well("a")}, ""},
		"one is of another kind":   {[]group.HealthCheck{of("a", "a")}, []group.HealthCheck{{Name: "a", TCP: &group.TCPCheck{Port: 1}}}, []Result{pending("a")}, []Result{ill("a")}, ""},
		"the workload is to say":   {[]group.HealthCheck{of("a", "a")}, []group.HealthCheck{{Name: "a", TTL: &group.TTLCheck{TTLSec: 30}}}, []Result{pending("a")}, []Result{ill("a")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *running) {
				r.set(c.before...)
				time.Sleep(time.Second)
				for _, one := range r.Results() {
					if one.Health != rollout.Healthy {
						t.Fatalf("before: %+v", one)
					}
				}
				r.lapsed()
				if c.ill != "" {
					r.is(c.ill, true)
				}
				r.set(c.after...)
				r.wants(t, "at once", c.at...)
				for _, one := range r.lapsed() {
					t.Errorf("it counted against the member: %+v", one)
				}
				time.Sleep(time.Minute)
				r.wants(t, "after a minute", c.ended...)
				for _, one := range r.lapsed() {
					if one.Health == rollout.Unknown {
						t.Errorf("not judged counted against the member: %+v", one)
					}
				}
			})
		})
	}
}

// TestAJudgementOutlivesItsTimes: a change of times alone neither repeats the check nor fails it;
// the new times apply from then on.
func TestAJudgementOutlivesItsTimes(t *testing.T) {
	bubble(t, func(t *testing.T, r *running) {
		check, other := of("a", "a"), of("b", "b")
		r.set(check, other)
		time.Sleep(time.Second)
		since, asked := r.Results()[0].Since, r.times("b")
		r.lapsed()
		check.CheckIntervalSec, check.TimeoutSec, check.HealthyThreshold, check.UnhealthyThreshold = 60, 20, 10, 1
		r.set(check, other)
		r.wants(t, "other times", well("a"), well("b"))
		if got := r.Results()[0].Since; !got.Equal(since) {
			t.Errorf("healthy since %s, before %s", got, since)
		}
		if got := r.times("b"); got != asked {
			t.Errorf("the other check was asked %d times, before %d: it was restarted", got, asked)
		}
		if lapsed := r.lapsed(); len(lapsed) > 0 {
			t.Errorf("it counted against the member: %+v", lapsed)
		}
		r.is("a", true)
		time.Sleep(59 * time.Second)
		r.wants(t, "before the new interval is over", well("a"), well("b"))
		time.Sleep(time.Second)
		r.wants(t, "after the new threshold", ill("a"), well("b"))
		r.set(other, check)
		r.wants(t, "another order", well("b"), ill("a"))
		check.UnhealthyThreshold = 5
		r.set(other, check)
		r.wants(t, "ill, and other times", well("b"), ill("a"))
	})
}

// TestLessTimeIsAnotherQuestion: an answer that takes two seconds may not fit in one, so the new
// step waits for a verdict, while the member stays healthy.
func TestLessTimeIsAnotherQuestion(t *testing.T) {
	bubble(t, func(t *testing.T, r *running) {
		r.takes = 2 * time.Second
		check := of("a", "a")
		check.TimeoutSec, check.CheckIntervalSec = 5, 20
		r.set(check)
		time.Sleep(time.Second)
		r.wants(t, "it passes", well("a"))
		check.TimeoutSec = 7
		r.set(check)
		r.wants(t, "more time", well("a"))
		check.TimeoutSec = 1
		r.set(check)
		r.wants(t, "less time", pending("a"))
		time.Sleep(time.Minute)
		r.wants(t, "too little", ill("a"))
	})
}

// TestAnUnhealthyMemberMustPassItsChecks: an untested new check does not make an unhealthy member
// healthy, even after the failed check is removed.
func TestAnUnhealthyMemberMustPassItsChecks(t *testing.T) {
	bubble(t, func(t *testing.T, r *running) {
		r.is("a", true)
		r.set(of("a", "a"))
		r.wants(t, "a fresh boot", unknown("a"))
		r.set(of("b", "b"))
		r.wants(t, "a fresh boot, another check", unknown("b"))
		r.set(of("a", "a"))
		time.Sleep(time.Minute)
		r.wants(t, "it fails", ill("a"))
		r.set(of("a", "b"))
		r.wants(t, "the failing one asks for something else", unknown("a"))
		time.Sleep(time.Second)
		r.wants(t, "which passes", well("a"))
		r.set(of("a", "b"), of("never", "never"))
		r.wants(t, "one comes", well("a"), pending("never"))
		r.set(of("a", "b"), of("c", "c"))
		r.wants(t, "a pending check delays no other", well("a"), pending("c"))
	})
}

// TestTheReportOfAWorkloadOutlivesARefresh: as long as the workload still answers that check.
func TestTheReportOfAWorkloadOutlivesARefresh(t *testing.T) {
	bubble(t, func(t *testing.T, r *running) {
		ttl := func(name string, sec int) group.HealthCheck {
			return group.HealthCheck{Name: name, TTL: &group.TTLCheck{TTLSec: sec}}
		}
		say := func(name string, status selfreport.Status) {
			t.Helper()
			if _, err := r.reports.Put(name, selfreport.Report{Status: status}); err != nil {
				t.Fatal(err)
			}
		}
		r.set(ttl("a", 10))
		r.wants(t, "a fresh boot", unknown("a"))
		say("a", selfreport.Passing)
		r.wants(t, "its word", well("a"))
		r.lapsed()
		r.set(ttl("a", 5), ttl("b", 5))
		r.wants(t, "another time, and another check", well("a"), pending("b"))
		say("b", selfreport.Passing)
		r.wants(t, "its first word", well("a"), well("b"))
		time.Sleep(4 * time.Second)
		say("a", selfreport.Passing)
		say("b", selfreport.Passing)
		if lapsed := r.lapsed(); len(lapsed) > 0 {
			t.Errorf("it counted against the member: %+v", lapsed)
		}
		time.Sleep(5 * time.Second)
		r.wants(t, "silent for the new time", ill("a"), ill("b"))
		r.set(ttl("a", 60), ttl("b", 5))
		r.wants(t, "a missing report stays a failure", ill("a"), ill("b"))
		r.set(of("a", "a"))
		r.wants(t, "a new report after a failure", unknown("a"))
	})
}
