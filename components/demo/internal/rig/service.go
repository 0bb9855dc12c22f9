package rig

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"cadre.dev/demo/load"
	"cadre.dev/figures"
)

// ServiceHandovers is how many hand-overs the aims of BenchService are for.
const ServiceHandovers = 100

const (
	// serviceCluster is the cluster with the routes.
	serviceCluster = "clusters/patroni-demo"
	// masterRoute leads to the leader by way of Envoys, pooledRoute by a PgBouncer before
	// them; both hold callers while the leadership moves.
	masterRoute = "postgres-master"
	pooledRoute = "postgres-pooled"
)

// serviceLoad is a hundred writes a second, in three ways: as many as the cluster's CVMs, which
// share this machine's cores, take during a hand-over without waiting for a core.
var serviceLoad = []string{"--var", "writers=1", "--var", "others=2", "--var", "interval=50ms"}

// ServiceTime bounds a benchmark with that many hand-overs.
func ServiceTime(handovers int) time.Duration {
	return 15*time.Minute + time.Duration(handovers)*90*time.Second
}

// BenchService deploys the database and the load of clusters/patroni-demo, moves the leadership by
// planned operations, one after the other, and reports the cost of routes. The result has the
// measurements from before an error as well.
func (r *Rig) BenchService(ctx context.Context, n *Narrator, handovers int) (result figures.Result, err error) {
	result = figures.Result{Name: "service", Rounds: handovers, Machine: figures.ThisMachine()}
	r.Routes, r.loadVars = true, serviceLoad
	if err := r.Deploy(ctx, n); err != nil {
		return result, err
	}
	app, err := r.inside(App + "-0")
	if err != nil {
		return result, err
	}
	defer app.close()
	var seen []handover
	for i := range handovers {
		h, err := r.handOver(ctx, app)
		if err != nil {
			result.Rounds = len(seen)
			result.Figures = handoverFigures(seen)
			return result, fmt.Errorf("hand-over %d of %d: %w", i+1, handovers, err)
		}
		seen = append(seen, h)
		p := h.ways[load.Pooled]
		n.Say("%3d/%d to %s: pooled stall %.0f ms, %d failed; gap by route %.0f, direct %.0f ms; the route has it after %.0f ms; whole after %.0f s",
			i+1, handovers, h.leader, ms(p.Gap), p.Failed, ms(h.ways[load.Route].Gap), ms(h.ways[load.Direct].Gap), ms(h.roleSwitch()), h.whole.Seconds())
	}
	result.Figures = handoverFigures(seen)
	n.Say("stopping the load, reading its rows back from the leader")
	verdict, err := r.StopLoad(ctx)
	if err != nil {
		return result, err
	}
	result.Figures = append(result.Figures, single("acknowledged_writes_missing", "writes", "<= 0", float64(verdict.Missing), map[string]float64{"acknowledged": float64(verdict.Acknowledged)}))
	cost, err := r.routeCost(ctx, n, app)
	result.Figures = append(result.Figures, cost...)
	if err != nil {
		return result, err
	}
	envoys, err := r.envoyMemory()
	if err != nil {
		return result, err
	}
	result.Figures = append(result.Figures, envoys)
	return result, nil
}

// handoverFigures are the figures of all hand-overs; none without one.
func handoverFigures(seen []handover) []figures.Figure {
	if len(seen) == 0 {
		return nil
	}
	var reached, stalls, routes, directs, wholes, busy []float64
	failed, attempted, refused, stale, routeFailed, directFailed, routeFirst := 0, 0, 0, 0, 0, 0, 0
	for _, h := range seen {
		pooled, route, direct := h.ways[load.Pooled], h.ways[load.Route], h.ways[load.Direct]
		reached = append(reached, ms(h.roleSwitch()))
		stalls, routes, directs = append(stalls, ms(pooled.Gap)), append(routes, ms(route.Gap)), append(directs, ms(direct.Gap))
		wholes, busy = append(wholes, h.whole.Seconds()), append(busy, h.busy)
		failed, attempted = failed+pooled.Failed, attempted+pooled.Attempted
		routeFailed, directFailed = routeFailed+route.Failed, directFailed+direct.Failed
		refused, stale = refused+h.refused, stale+h.stale
		if h.routeFirst() {
			routeFirst++
		}
	}
	number := float64(len(seen))
	out := []figures.Figure{
		figures.New("role_switch_ms_p50", "ms", "<= 350", reached, map[string]float64{
			"p99": quantile(reached, 0.99), "refused_over_the_route": float64(refused), "answered_by_a_follower": float64(stale),
			"route_was_first": float64(routeFirst),
		}),
		single(fmt.Sprintf("pooled_failed_in_%d_handovers", len(seen)), "writes", "<= 0", float64(failed), map[string]float64{
			"attempted": float64(attempted), "handovers": number, "route_failed": float64(routeFailed), "direct_failed": float64(directFailed),
		}),
		figures.New("pooled_stall_ms_p50", "ms", "<= 500", stalls, map[string]float64{
			"route_gap_ms": figures.Median(routes), "direct_gap_ms": figures.Median(directs), "whole_again_s": figures.Median(wholes), "load_average": figures.Median(busy),
		}),
	}
	p99 := single("pooled_stall_ms_p99", "ms", "<= 1500", quantile(stalls, 0.99), map[string]float64{
		"longest": slices.Max(stalls), "route_gap_ms": quantile(routes, 0.99), "direct_gap_ms": quantile(directs, 0.99),
	})
	return append(out, p99)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile is the least value that the share of all do not exceed.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
