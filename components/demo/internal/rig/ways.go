package rig

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/demo/load"
	"cadre.dev/figures"
)

// ways are all that the load of clusters/patroni-demo writes in.
var ways = []load.Way{load.Direct, load.Route, load.Pooled}

// WayReport is the result of one way of writing: by the members' own names, by a route, or by a
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

// cluster is the folder that Deploy deploys.
func (r *Rig) cluster() string {
	if r.Routes {
		return serviceCluster
	}
	return "clusters/postgres"
}

// notePlanned adds a rollout to each way's result.
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

// eachWay has the figures of a span of each way that began; zero times are open.
func (r *Rig) eachWay(ctx context.Context, from, to time.Time) (map[load.Way]load.Summary, error) {
	all := map[load.Way]load.Summary{}
	return all, r.loadCtl(ctx, &all, "-of", "all", "summary", stamp(from), stamp(to))
}

// waySummaries are the figures of a span for each way of writing, in which each wrote.
func (r *Rig) waySummaries(ctx context.Context, from, to time.Time) (map[load.Way]load.Summary, error) {
	all, err := r.eachWay(ctx, from, to)
	if err != nil {
		return nil, err
	}
	for _, way := range ways {
		if all[way].Acknowledged == 0 {
			return all, fmt.Errorf("the load's way %q got no write acknowledged in %s", way, to.Sub(from).Round(time.Second))
		}
	}
	return all, nil
}

// wayVerdicts stops the load and looks for every write that was acknowledged.
func (r *Rig) wayVerdicts(ctx context.Context) (map[load.Way]load.Verdict, error) {
	if err := r.loadCtl(ctx, nil, "-of", "all", "stop"); err != nil {
		return nil, err
	}
	all := map[load.Way]load.Verdict{}
	return all, r.loadCtl(ctx, &all, "-of", "all", "verify")
}

// allWaysWrite reports which way has fewer than n writes acknowledged since then.
func (r *Rig) allWaysWrite(ctx context.Context, from time.Time, n int) error {
	all, err := r.eachWay(ctx, from, time.Time{})
	if err != nil {
		return err
	}
	for _, way := range ways {
		s, began := all[way]
		switch {
		case !began:
			return fmt.Errorf("the way %s has not begun, the log of the service load in the CVM %s says why", way, r.PlatformName(App+"-0"))
		case s.Acknowledged < n:
			return fmt.Errorf("by the way %s %d writes were acknowledged, and not %d: %v", way, s.Acknowledged, n, s.Errors)
		}
	}
	return nil
}

// together adds up the verdicts of all ways.
func together(all map[load.Way]load.Verdict) load.Verdict {
	var v load.Verdict
	for _, one := range all {
		v.Acknowledged, v.Present, v.Missing, v.Unchecked = v.Acknowledged+one.Acknowledged, v.Present+one.Present, v.Missing+one.Missing, v.Unchecked+one.Unchecked
		v.MissingIDs = append(v.MissingIDs, one.MissingIDs...)
		v.Earlier.Acknowledged, v.Earlier.Missing = v.Earlier.Acknowledged+one.Earlier.Acknowledged, v.Earlier.Missing+one.Earlier.Missing
		v.Starts = max(v.Starts, one.Starts)
	}
	return v
}

// wayFigures are the figures that show the purpose of routes: the clients' view of the rollout.
func (r Report) wayFigures() []figures.Figure {
	direct, route, pooled := r.Ways[load.Direct], r.Ways[load.Route], r.Ways[load.Pooled]
	if direct == nil || route == nil || pooled == nil {
		return nil
	}
	return []figures.Figure{
		single("pooled_failed", "writes", "<= 0", float64(pooled.PlannedFailed), map[string]float64{"after_the_kill": float64(pooled.UnplannedFailed)}),
		single("pooled_gap_ms", "ms", "<= 500", float64(pooled.PlannedGapMS), map[string]float64{"after_the_kill": float64(pooled.UnplannedGapMS)}),
		single("route_gap_over_direct_ms", "ms", "<= 300", float64(route.PlannedGapMS-direct.PlannedGapMS), map[string]float64{
			"route_gap_ms": float64(route.PlannedGapMS), "direct_gap_ms": float64(direct.PlannedGapMS),
			"route_failed": float64(route.PlannedFailed), "direct_failed": float64(direct.PlannedFailed),
			"route_after_the_kill": float64(route.UnplannedGapMS), "direct_after_the_kill": float64(direct.UnplannedGapMS),
		}),
	}
}
