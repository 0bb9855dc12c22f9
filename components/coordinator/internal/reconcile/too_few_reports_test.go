package reconcile

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/raced/synctest"
	"cadre.dev/store/storetest"
)

// TestACoordinatorThatBeganListensFirst: most Boots that the records name may know that the records
// went back. If they stay silent, the coordinator continues after the warmup.
func TestACoordinatorThatBeganListensFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		views := view.NewWatcher(storetest.NewMemory(), slog.New(slog.DiscardHandler))
		go func() { _ = views.Run(ctx) }()
		synctest.Wait()
		agents := reports.New(time.Now)
		r := New(Config{Views: views, Reports: agents, Warmup: 10 * time.Second})
		named := map[string]view.Rec[policy.Admission]{"pg-0": {}, "pg-1": {}, "pg-2": {}}
		tooFewReports := func(admissions map[string]view.Rec[policy.Admission]) bool {
			return r.tooFewReports(r.heard(agents.HighWater(), 1, 1, len(admissions)))
		}
		agents.Put("pg-0", "boot", &controlv1.Report{Sequence: 1})
		if !tooFewReports(named) || tooFewReports(nil) {
			t.Errorf("one of three heard: deaf %t; nobody to hear: deaf %t", tooFewReports(named), tooFewReports(nil))
		}
		agents.Put("pg-1", "boot", &controlv1.Report{Sequence: 1})
		if tooFewReports(named) {
			t.Error("two of three were heard")
		}
		wait(ctx, 11*time.Second)
		if tooFewReports(named) {
			t.Error("it listens for ever")
		}
		cancel()
		synctest.Wait()
	})
}
