package contest

import (
	"slices"
	"time"

	"cadre.dev/figures"
)

// results are the measurements of all rounds.
type results struct {
	rounds, agents                        int
	first                                 used
	under                                 []used
	underCount, singleCount, renewalCount int
	single                                [][]float64 // ms of CPU of each, sorted
	singleTotal                           []used
	renewals                              []used
	storms                                []storm
	slow                                  storm
	verifyOurs, verifyTheirs              []float64
}

// of takes one number of each round.
func of[T any](rounds []T, number func(T) float64) []float64 {
	out := make([]float64, len(rounds))
	for i, one := range rounds {
		out[i] = number(one)
	}
	return out
}

func (r *results) report(o Options) figures.Result {
	out := figures.Result{Name: "admission", Rounds: r.rounds, Machine: figures.ThisMachine(), Figures: []figures.Figure{
		r.perCore(), r.cpu(), r.stormTime(o), r.stormLost(), r.verifyRatio(), r.renewalsPerCore(),
	}}
	// Parts that were left out have no figures.
	out.Figures = slices.DeleteFunc(out.Figures, func(f figures.Figure) bool { return len(f.Samples) == 0 })
	return out
}

// perCoreSecond is how much of n is done in a second of our CPU.
func perCoreSecond(n int) func(used) float64 {
	return func(u used) float64 { return float64(n) / u.ours.Seconds() }
}

// each is the median of the rounds' means of one party's time, in ms.
func each(rounds []used, n int, party func(used) time.Duration) float64 {
	return figures.Median(of(rounds, func(u used) float64 { return ms(party(u)) / float64(n) }))
}

func ourCPU(u used) time.Duration    { return u.ours }
func consulCPU(u used) time.Duration { return u.consul }
func wallTime(u used) time.Duration  { return u.wall }

func rate(rounds []used, n int) float64 {
	return figures.Median(of(rounds, func(u used) float64 { return float64(n) / u.wall.Seconds() }))
}

func (r *results) perCore() figures.Figure {
	return figures.New("admissions_per_core_second", "1/s", ">= 50", of(r.under, perCoreSecond(r.underCount)), map[string]float64{
		"coordinators": 1, "at_once": parallel, "admissions": float64(r.underCount), "slots": float64(r.agents),
		"cpu_ms": each(r.under, r.underCount, ourCPU), "consul_cpu_ms": each(r.under, r.underCount, consulCPU),
		"wall_per_s": rate(r.under, r.underCount), "first_ever_cpu_ms": ms(r.first.ours) / float64(r.agents),
	})
}

func (r *results) cpu() figures.Figure {
	median := func(p int) func([]float64) float64 { return func(v []float64) float64 { return percentile(v, p) } }
	return figures.New("admission_cpu_ms_p50", "ms", "<= 20", of(r.single, median(50)), map[string]float64{
		"coordinators": 1, "at_once": 1, "admissions": float64(r.singleCount), "p90_ms": figures.Median(of(r.single, median(90))),
		"mean_ms": each(r.singleTotal, r.singleCount, ourCPU), "consul_cpu_mean_ms": each(r.singleTotal, r.singleCount, consulCPU),
		"wall_mean_ms": each(r.singleTotal, r.singleCount, wallTime),
	})
}

func (r *results) stormTime(o Options) figures.Figure {
	median := func(number func(storm) float64) float64 { return figures.Median(of(r.storms, number)) }
	seconds := func(s storm) float64 { return s.took.wall.Seconds() }
	detail := map[string]float64{
		"agents": float64(r.agents), "coordinators_in_one_process": stormCoordinators, "quote_latency_ms": ms(o.QuoteLatency),
		"p50_s":        median(func(s storm) float64 { return percentile(s.until, 50) }),
		"p99_s":        median(func(s storm) float64 { return percentile(s.until, 99) }),
		"tries_mean":   median(func(s storm) float64 { return float64(s.tries) / float64(r.agents) }),
		"tries_most":   median(func(s storm) float64 { return float64(s.most) }),
		"quotes":       median(func(s storm) float64 { return float64(s.quotes) }),
		"turned_away":  median(func(s storm) float64 { return float64(s.overloaded) }),
		"cpu_s":        median(func(s storm) float64 { return s.took.ours.Seconds() }),
		"consul_cpu_s": median(func(s storm) float64 { return s.took.consul.Seconds() }),
		"agents_cpu_s": median(func(s storm) float64 { return s.took.agents.Seconds() }),
	}
	if r.slow.took.wall > 0 {
		detail["slow_quote_ms"], detail["slow_quote_storm_s"], detail["slow_quote_quotes"] = ms(o.SlowQuote), seconds(r.slow), float64(r.slow.quotes)
	}
	return figures.New("storm_1000_s", "s", "", of(r.storms, seconds), detail)
}

func (r *results) stormLost() figures.Figure {
	all := r.storms
	if r.slow.took.wall > 0 {
		all = append(all[:len(all):len(all)], r.slow)
	}
	detail := map[string]float64{"nonces_used_twice": 0} // else there is no report
	for _, s := range all {
		detail["refused"] += float64(s.refused)
		detail["lost"] += float64(s.lost)
		detail["nonces_spent"] += float64(s.nonces.spent)
		detail["nonces_given"] += float64(s.nonces.given)
	}
	f := figures.New("storm_1000_refused_or_lost", "agents", "<= 0", of(all, func(s storm) float64 { return float64(s.refused + s.lost) }), detail)
	// For a forbidden event the worst round counts.
	for _, sample := range f.Samples {
		f.Value = max(f.Value, sample)
	}
	return f
}

func (r *results) verifyRatio() figures.Figure {
	ratios := make([]float64, len(r.verifyOurs))
	for i := range ratios {
		ratios[i] = r.verifyOurs[i] / r.verifyTheirs[i]
	}
	return figures.New("verify_only_vs_go_tdx_guest", "ratio", "<= 1.5", ratios, map[string]float64{
		"ours_us": figures.Median(r.verifyOurs), "theirs_us": figures.Median(r.verifyTheirs),
	})
}

func (r *results) renewalsPerCore() figures.Figure {
	return figures.New("renewals_per_core_second", "1/s", ">= 500", of(r.renewals, perCoreSecond(r.renewalCount)), map[string]float64{
		"coordinators": 1, "control_sessions": min(renewing, float64(r.agents)), "renewals": float64(r.renewalCount), "slots": float64(r.agents),
		"cpu_ms": each(r.renewals, r.renewalCount, ourCPU), "consul_cpu_ms": each(r.renewals, r.renewalCount, consulCPU),
		"wall_per_s": rate(r.renewals, r.renewalCount),
	})
}
