package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"cadre.dev/figures"
)

const (
	// costRounds of costQueries in turns, so that a disturbance of the machine affects all.
	costRounds  = 10
	costQueries = 500
	// bulkRounds of bulkRows rows of bulkRow bytes each.
	bulkRounds = 5
	bulkRows   = 16384
	bulkRow    = 8 << 10
)

// routeCost compares the route, and the route with a pooler, with the leader's Peer VIP: the same
// query over an open connection, to the same server, from the same CVM. Each way crosses the
// overlay; the VIP has no Envoy on either side. The database gets no other query meanwhile.
func (r *Rig) routeCost(ctx context.Context, n *Narrator, app *inside) ([]figures.Figure, error) {
	leader, err := r.settled(ctx)
	if err != nil {
		return nil, err
	}
	conns := map[string]*pgx.Conn{}
	defer func() {
		for _, conn := range conns {
			hangUpOn(ctx, conn)
		}
	}()
	for _, name := range []string{leader, masterRoute, pooledRoute} {
		if conns[name], err = app.connect(ctx, name); err != nil {
			delete(conns, name)
			return nil, fmt.Errorf("connect to %s: %w", name, err)
		}
	}
	n.Say("asking %s over its Peer VIP, the route and the pooler, %d times each", leader, costRounds*costQueries)
	latency := map[string][]float64{}
	for range costRounds {
		for name, conn := range conns {
			one, err := askedFor(ctx, conn)
			if err != nil {
				return nil, fmt.Errorf("ask over %s: %w", name, err)
			}
			latency[name] = append(latency[name], one)
		}
	}
	added := minus(latency[masterRoute], latency[leader])
	out := []figures.Figure{figures.New("route_latency_added_us_p50", "us", "", added, map[string]float64{
		"vip_us": figures.Median(latency[leader]), "route_us": figures.Median(latency[masterRoute]), "pooled_us": figures.Median(latency[pooledRoute]),
	})}
	n.Say("reading %d MiB of it %d times each way", bulkRows*bulkRow>>20, bulkRounds)
	rate := map[string][]float64{}
	for range bulkRounds {
		for _, name := range []string{leader, masterRoute} {
			one, err := readRate(ctx, conns[name])
			if err != nil {
				return out, fmt.Errorf("read over %s: %w", name, err)
			}
			rate[name] = append(rate[name], one)
		}
	}
	ratios := make([]float64, bulkRounds)
	for i := range ratios {
		ratios[i] = rate[masterRoute][i] / rate[leader][i]
	}
	return append(out, figures.New("route_throughput_vs_vip", "ratio", "", ratios, map[string]float64{
		"route_mbps": figures.Median(rate[masterRoute]), "vip_mbps": figures.Median(rate[leader]),
	})), nil
}

// askedFor is the median time of one question and its answer, in microseconds.
func askedFor(ctx context.Context, conn *pgx.Conn) (float64, error) {
	var took []float64
	for range costQueries {
		began := time.Now()
		var one int
		if err := conn.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began))/float64(time.Microsecond))
	}
	return figures.Median(took), nil
}

func minus(a, b []float64) []float64 {
	out := slices.Clone(a)
	for i := range out {
		out[i] -= b[i]
	}
	return out
}

// counter counts the written bytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// readRate reads a lot, in Mbit/s.
func readRate(ctx context.Context, conn *pgx.Conn) (float64, error) {
	var read counter
	began := time.Now()
	_, err := conn.PgConn().CopyTo(ctx, &read, fmt.Sprintf("COPY (SELECT repeat('x', %d) FROM generate_series(1, %d)) TO STDOUT", bulkRow-1, bulkRows))
	took := time.Since(began)
	if err == nil && read != bulkRow*bulkRows {
		err = fmt.Errorf("%d bytes came instead of %d", read, bulkRow*bulkRows)
	}
	return float64(read) * 8 / 1e6 / took.Seconds(), err
}

// envoyMemory is the resident memory of each Envoy of the cloud's CVMs; the value is the largest.
func (r *Rig) envoyMemory() (figures.Figure, error) {
	cloud, err := r.Cloud()
	if err != nil {
		return figures.Figure{}, err
	}
	all, err := tree(cloud.PID)
	if err != nil {
		return figures.Figure{}, err
	}
	var sizes []float64
	for _, p := range all {
		if p.name != "envoy" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "smaps_rollup"))
		if err != nil {
			return figures.Figure{}, fmt.Errorf("ask for the memory of an envoy: %w", err)
		}
		sizes = append(sizes, kib(string(text), "Rss:")/1024)
	}
	if len(sizes) == 0 {
		return figures.Figure{}, errors.New("no envoy runs in the local cloud")
	}
	return single("envoy_rss_mb", "MiB", "<= 70", slices.Max(sizes), map[string]float64{
		"envoys": float64(len(sizes)), "median": figures.Median(sizes),
	}), nil
}
