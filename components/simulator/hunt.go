package simulator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cadre.dev/simulator/check"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// Judge runs a plan and returns its trace with the broken promises; one promise is that the run
// ends.
func Judge(t *testing.T, p plan.Plan) (trace.Trace, []check.Violation) {
	t.Helper()
	out, wrong := run(t, p, nil)
	return out, append(check.Run(out), wrong...)
}

// Shorten removes parts from a plan that still breaks the promise like first. It tries each shorter
// plan twice, since simultaneous events happen in any order.
func Shorten(t *testing.T, p plan.Plan, first check.Violation) plan.Plan {
	t.Helper()
	for {
		at := slices.IndexFunc(plan.Shorter(p), func(less plan.Plan) bool {
			for range 2 {
				if _, broken := Judge(t, less); slices.ContainsFunc(broken, first.Like) {
					return true
				}
			}
			return false
		})
		if at < 0 {
			return p
		}
		p = plan.Shorter(p)[at]
	}
}

// HuntResult is the result of a hunt.
type HuntResult struct {
	Seeds, Faults int
	// AtRest are the seeds whose groups all settled; the other seeds' groups gave a reason.
	AtRest int
	// Virtual is the time that passed in the clusters, Core the processor time.
	Virtual, Core time.Duration
	// Broken are the runs that broke a promise, by seed, Stuck the runs that broke check.Stuck
	// alone.
	Broken, Stuck map[uint64]Broken
}

// String is one line, for logs.
func (s HuntResult) String() string {
	return fmt.Sprintf("%d seeds, %d at rest at the end, %d broken, %d stuck until a deadline, with %d faults in %.1f virtual hours; %.0f seeds a core-minute",
		s.Seeds, s.AtRest, len(s.Broken), len(s.Stuck), s.Faults, s.Virtual.Hours(), float64(s.Seeds)/s.Core.Minutes())
}

// Broken is a run that broke promises. It keeps the trace: a replay of the seed may take other
// steps, and break none.
type Broken struct {
	Trace    trace.Trace
	Promises []check.Violation
}

// stuckAfter is far longer than any seed takes, even with other load and the race detector.
const stuckAfter = 5 * time.Minute

// Hunt runs seeds from first on, on workers cores, until more says false.
func Hunt(t *testing.T, first uint64, workers int, more func(HuntResult) bool) HuntResult {
	t.Helper()
	var (
		mu    sync.Mutex
		sum   = HuntResult{Broken: map[uint64]Broken{}, Stuck: map[uint64]Broken{}}
		began = spent()
		seed  = first
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		sum.Core = spent() - began
		seed++
		return seed - 1, more(sum)
	}
	t.Run("seeds", func(t *testing.T) {
		for n := range workers {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				for seed, goes := take(); goes; seed, goes = take() {
					// A run in which virtual time never passes cannot be stopped from outside.
					stuck := time.AfterFunc(stuckAfter, func() { panic(fmt.Sprintf("seed %d has not ended after %s: a busy loop", seed, stuckAfter)) })
					out, broken := Judge(t, plan.Draw(seed))
					stuck.Stop()
					last := out[len(out)-1]
					mu.Lock()
					sum.Seeds, sum.Faults, sum.Virtual = sum.Seeds+1, sum.Faults+last.Faults, sum.Virtual+last.At
					if reasons(out) == "" {
						sum.AtRest++
					}
					if other := func(v check.Violation) bool { return v.ID != check.Stuck }; len(broken) > 0 {
						if slices.ContainsFunc(broken, other) {
							sum.Broken[seed] = Broken{out, broken}
						} else {
							sum.Stuck[seed] = Broken{out, broken}
						}
						// Print at once: a report at the end is lost if the process is killed
						// before.
						fmt.Printf("seed %d broke %s: %s\n", seed, broken[0].ID, broken[0].Message)
					}
					mu.Unlock()
				}
			})
		}
	})
	return sum
}

// spent is the processor time of this process: other work on the machine does not count.
func spent() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(fmt.Sprintf("what the process spent cannot be told: %v", err))
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Explain describes a run that broke promises: the plan, the broken promises, and the trace up to
// the first violation.
func Explain(p plan.Plan, out trace.Trace, broken []check.Violation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", p)
	for _, v := range broken {
		fmt.Fprintf(&b, "%s broken at %s: %s\n", v.ID, out[v.At].At, v.Message)
	}
	b.WriteString(reasons(out))
	if len(broken) > 0 {
		out = out[:broken[0].At+1]
	}
	fmt.Fprintf(&b, "\n%s", out)
	return b.String()
}
