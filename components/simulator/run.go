// Package simulator runs whole clusters under faults from a seed: the control loop that
// coordinators run, in virtual time, on a store, a platform and members that go wrong as the
// seed decides. What a run did is a trace; checkers judge it.
//
// Under the race detector a run has one processor, and tests try a tenth of their cases: package
// raced/synctest says what happens without that. The same tests run without the detector in full.
package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"cadre.dev/raced/synctest"
	"cadre.dev/simulator/check"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
	"cadre.dev/simulator/world"
)

// Run carries p out in virtual time and returns its trace, which ends with Settled. log gets
// what coordinators say; nil: nobody does. It fails t where the run has no such end.
func Run(t *testing.T, p plan.Plan, log *slog.Logger) trace.Trace {
	t.Helper()
	out, wrong := run(t, p, log)
	for _, v := range wrong {
		t.Errorf("seed %d: %s", p.Seed, v)
	}
	return out
}

// run is Run, and gives what went wrong with the run itself: it never came to its end, or
// coordinators changed records in place.
func run(t *testing.T, p plan.Plan, log *slog.Logger) (out trace.Trace, wrong []check.Violation) {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := world.New(p, log, cancel)
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		failed := w.Operate(ctx)
		cancel()
		running.Wait()
		out = w.Trace()
		last := len(out) - 1
		if failed != nil || last < 0 || out[last].Kind != trace.Settled {
			wrong = append(wrong, check.Violation{ID: "ends", At: last, Message: fmt.Sprintf("the run did not end after %d events: %v", len(out), failed)})
		}
		if altered := w.Altered(); len(altered) > 0 {
			wrong = append(wrong, check.Violation{ID: "alters", At: last, Message: fmt.Sprintf("coordinators changed records in place that all they read share: %v", altered)})
		}
	})
	return out, wrong
}
