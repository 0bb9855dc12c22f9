package rig

import (
	"context"
	"time"

	"cadre.dev/demo/load"
	"cadre.dev/figures"
)

// WayReport is what one way of writing saw: by the members' own names, by a route, or by a
// route with a pooler.
type WayReport struct {
	// The longest times between two acknowledged writes, in ms, and the writes that failed:
	// in the rollout, and since the leader was killed.
	PlannedGapMS    int64 `json:"planned_gap_ms"`
	PlannedFailed   int   `json:"planned_failed"`
	UnplannedGapMS  int64 `json:"unplanned_gap_ms"`
	UnplannedFailed int   `json:"unplanned_failed"`
	// Leaders that acknowledged in the rollout, in order.
	Leaders []string `json:"leaders"`
}

// cluster is the folder of what Deploy deploys.
func (r *Rig) cluster() string {
	if r.Routes {
		return serviceCluster
	}
	return "clusters/postgres"
}

// notePlanned adds a rollout to what each way saw.
func (r *Rig) notePlanned(ctx context.Context, report *Report, from, to time.Time) error {
	return r.noteWays(ctx, report, from, to, func(w *WayReport, s load.Summary) {
		w.PlannedGapMS, w.PlannedFailed, w.Leaders = s.Gap.Milliseconds(), s.Failed, s.Servers
	})
}

// noteUnplanned adds the leader's death.
func (r *Rig) noteUnplanned(ctx context.Context, report *Report, from, to time.Time) error {
	return r.noteWays(ctx, report, from, to, func(w *WayReport, s load.Summary) {
		w.UnplannedGapMS, w.UnplannedFailed = s.Gap.Milliseconds(), s.Failed
	})
}

func (r *Rig) noteWays(ctx context.Context, report *Report, from, to time.Time, note func(*WayReport, load.Summary)) error {
	if !r.Routes {
		return nil
	}
	all, err := r.waySummaries(ctx, from, to)
	if err != nil {
		return err
	}
	if report.Ways == nil {
		report.Ways = map[load.Way]*WayReport{}
	}
	for _, way := range ways {
		if report.Ways[way] == nil {
			report.Ways[way] = &WayReport{}
		}
		note(report.Ways[way], all[way])
	}
	return nil
}

// wayFigures are what routes are for: what clients saw of the rollout.
func (r Report) wayFigures() []figures.Figure {
	direct, route, pooled := r.Ways[load.Direct], r.Ways[load.Route], r.Ways[load.Pooled]
	if direct == nil || route == nil || pooled == nil {
		return nil
	}
	one := func(name, unit, aim string, value float64, detail map[string]float64) figures.Figure {
		return figures.New(name, unit, aim, []float64{value}, detail)
	}
	return []figures.Figure{
		one("pooled_failed", "writes", "<= 0", float64(pooled.PlannedFailed), map[string]float64{"after_the_kill": float64(pooled.UnplannedFailed)}),
		one("pooled_gap_ms", "ms", "<= 500", float64(pooled.PlannedGapMS), map[string]float64{"after_the_kill": float64(pooled.UnplannedGapMS)}),
		one("route_gap_over_direct_ms", "ms", "<= 300", float64(route.PlannedGapMS-direct.PlannedGapMS), map[string]float64{
			"route_gap_ms": float64(route.PlannedGapMS), "direct_gap_ms": float64(direct.PlannedGapMS),
			"route_failed": float64(route.PlannedFailed), "direct_failed": float64(direct.PlannedFailed),
			"route_after_the_kill": float64(route.UnplannedGapMS), "direct_after_the_kill": float64(direct.UnplannedGapMS),
		}),
	}
}
