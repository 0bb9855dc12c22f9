package scale

import (
	"fmt"

	"cadre.dev/figures"
)

// results are the measurements.
type results struct {
	empty     memory
	grown     []grown
	idles     []sized
	storms    []storm
	stormAt   int
	orders    []float64
	ordersAt  int
	takeovers []takeover
	large     large
	failed    []error
}

type grown struct {
	size    int
	seconds float64
}

// large are the observations with one large group in the cluster.
type large struct {
	grown float64 // seconds; 0: it was not measured
	idle  idle
	at    counts
}

type sized struct {
	size int
	idle idle
	at   counts
}

type takeover struct {
	name    string
	seconds float64
	slots   int
}

func (r *results) fail(format string, args ...any) {
	r.failed = append(r.failed, fmt.Errorf(format, args...))
}

// aims by name of figure.
var aims = map[string]string{
	"leader_idle_cores_1000": "<= 0.2", "leader_idle_cores_10000": "<= 1.0", "coordinator_kib_per_agent": "<= 60",
	"member_sessions_max_1000": "<= 8", "consul_writes_idle_per_s": "<= 1", "spec_to_order_ms_p99_10000": "<= 1000",
	"growth_idle_1000_to_10000": "<= 12", "storm_1000_to_mesh_s": "<= 30", "storm_lost": "<= 0",
	"leader_takeover_clean_s": "<= 2", "leader_takeover_process_crash_s": "<= 3", "leader_takeover_cvm_lost_s": "<= 15",
}

func one(name, unit string, value float64, detail map[string]float64) figures.Figure {
	return figures.New(name, unit, aims[name], []float64{value}, detail)
}

func (r *results) report() figures.Result {
	out := figures.Result{Name: "scale", Rounds: 1, Machine: figures.ThisMachine()}
	add := func(f ...figures.Figure) { out.Figures = append(out.Figures, f...) }
	leader := map[int]float64{}
	for _, s := range r.idles {
		leader[s.size] = s.idle.Leader
		add(one(fmt.Sprintf("leader_idle_cores_%d", s.size), "cores", s.idle.Leader, map[string]float64{
			"slots": float64(s.idle.Slots), "followers_cores": s.idle.Followers, "leaders_consul_cores": s.idle.Consul, "agents_cores": s.idle.Agents,
			"machine_busy": s.idle.Busy, "writes_per_s": s.idle.Writes, "leader_rss_mib": float64(s.idle.Memory.RSS) / (1 << 20), "grown_in_s": r.grownIn(s.size),
		}))
	}
	if small, large := leader[1000], leader[10000]; small > 0 && large > 0 {
		add(one("growth_idle_1000_to_10000", "ratio", large/small, nil))
	}
	if n := len(r.idles); n > 0 {
		last := r.idles[n-1]
		per := func(bytes, empty uint64) float64 {
			return (float64(bytes) - float64(empty)) / 1024 / float64(last.idle.Slots)
		}
		add(one("coordinator_kib_per_agent", "KiB", per(last.idle.Memory.RSS, r.empty.RSS), map[string]float64{
			"slots": float64(last.idle.Slots), "in_use_kib": per(last.idle.Memory.Live, r.empty.Live), "empty_mib": float64(r.empty.RSS) / (1 << 20),
		}))
		add(one("consul_writes_idle_per_s", "1/s", last.idle.Writes, map[string]float64{"slots": float64(last.idle.Slots)}))
	}
	for _, s := range r.idles {
		if s.size == 1000 {
			add(one("member_sessions_max_1000", "sessions", float64(s.at.MostSessions), map[string]float64{"peers_in_map": float64(s.at.MostMap)}))
		}
	}
	for _, s := range r.storms {
		add(one(fmt.Sprintf("storm_%d_to_mesh_s", r.stormAt), "s", s.Took, nil), one("storm_lost", "agents", float64(s.Lost), map[string]float64{"agents": float64(r.stormAt)}))
	}
	if len(r.orders) > 0 {
		add(one(fmt.Sprintf("spec_to_order_ms_p99_%d", r.ordersAt), "ms", percentile(r.orders, 99), map[string]float64{
			"specs": float64(len(r.orders)), "p50_ms": percentile(r.orders, 50), "most_ms": r.orders[len(r.orders)-1],
		}))
	}
	if l := r.large; l.idle.Slots > 0 {
		add(one("large_group_leader_idle_cores", "cores", l.idle.Leader, map[string]float64{
			"slots": float64(l.idle.Slots), "followers_cores": l.idle.Followers, "leaders_consul_cores": l.idle.Consul, "agents_cores": l.idle.Agents,
			"machine_busy": l.idle.Busy, "writes_per_s": l.idle.Writes, "grown_in_s": l.grown, "peers_in_map": float64(l.at.MostMap),
		}))
		add(one("large_group_member_sessions_max", "sessions", float64(l.at.MostSessions), nil))
	}
	for _, t := range r.takeovers {
		add(one(t.name, "s", t.seconds, map[string]float64{"slots": float64(t.slots)}))
	}
	return out
}

func (r *results) grownIn(size int) float64 {
	for _, g := range r.grown {
		if g.size == size {
			return g.seconds
		}
	}
	return 0
}
