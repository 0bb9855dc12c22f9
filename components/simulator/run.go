// Package simulator runs whole clusters under faults from a seed: the coordinators' own control
// loop, in virtual time, on a store, a platform and members whose faults the seed decides. The
// record of a run is a trace, which checkers judge.
//
// Under the race detector a run has one processor, and tests try a tenth of their cases. Package
// raced/synctest describes the behaviour without that limit. The same tests run without the detector in full.
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

// Run executes p in virtual time and returns its trace, which ends with Settled. log receives the
// coordinators' log lines; nil: they are dropped. It fails t where the run has no such end.
func Run(t *testing.T, p plan.Plan, log *slog.Logger) trace.Trace {
	t.Helper()
	out, wrong := run(t, p, log)
	for _, v := range wrong {
		t.Errorf("seed %d: %s", p.Seed, v)
	}
	return out
}

// run is Run, and returns the faults of the run itself: it never ended, or coordinators changed
// records in place.
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
