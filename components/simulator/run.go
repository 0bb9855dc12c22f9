// Package simulator runs whole clusters under faults from a seed: the control loop that
// coordinators run, in virtual time, on a store, a platform and members that go wrong as the
// seed decides. What a run did is a trace; checkers judge it.
package simulator

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
	"cadre.dev/simulator/world"
)

// Run carries p out in virtual time and returns its trace, which ends with Settled. log gets
// what coordinators say; nil: nobody does. It fails t where the run itself could not be made.
func Run(t *testing.T, p plan.Plan, log *slog.Logger) (out trace.Trace) {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := world.New(p, log, cancel)
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		if err := w.Operate(ctx); err != nil {
			so := w.Trace()
			t.Errorf("seed %d did not end, after %d events: %v: %v", p.Seed, len(so), so[len(so)-1], err)
		}
		cancel()
		running.Wait()
		if altered := w.Altered(); len(altered) > 0 {
			t.Errorf("seed %d: coordinators changed records in place that all they read share: %v", p.Seed, altered)
		}
		out = w.Trace()
	})
	return out
}
