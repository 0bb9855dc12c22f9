package reports_test

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reports"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestAnAgentsFaultIsNews: the leader writes it into the Slot's reason.
func TestAnAgentsFaultIsNews(t *testing.T) {
	r := reports.New(time.Now)
	r.Put("pg-0", "b007", &controlv1.Report{Sequence: 1})
	changed := r.Changed()
	r.Put("pg-0", "b007", &controlv1.Report{Sequence: 2})
	select {
	case <-changed:
		t.Error("a report like the one before is news")
	default:
	}
	r.Put("pg-0", "b007", &controlv1.Report{Sequence: 3, Faults: []string{"the disk takes no writes"}})
	select {
	case <-changed:
	default:
		t.Error("a fault is no news")
	}
	if got, ok := r.Of("pg-0"); !ok || !slices.Equal(got.Observed().Faults, []string{"the disk takes no writes"}) {
		t.Errorf("the planner sees %+v", got.Observed())
	}
}
