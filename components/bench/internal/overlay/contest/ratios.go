package contest

import (
	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/figures"
)

// ratio is a figure that compares two contenders inside each round.
type ratio struct {
	name, aim    string
	ours, theirs string
	workload     Workload
	of           func(Result) float64
	unit         string // of the compared values, for the detail
}

func mbps(r Result) float64   { return r.One.Mbps }
func cpuGB(r Result) float64  { return r.One.CPU }
func loaded(r Result) float64 { return microseconds(r.Loaded) }

func microseconds(l load.Latency) float64 { return float64(l.Median.Nanoseconds()) / 1e3 }

// ratios are the figures of the clean cable.
var ratios = []ratio{
	{"udp_forward_vs_predecessor", ">= 4.0", OursUDP, Predecessor, OneStream, mbps, "mbps"},
	{"udp_forward_cpu_vs_predecessor", "<= 0.33", OursUDP, Predecessor, OneStream, cpuGB, "cpu_s_per_gb"},
	{"udp_stream_vs_wireguard_go", ">= 1.0", OursUDPS, WireGuard, OneStream, mbps, "mbps"},
	{"udp_cpu_vs_wireguard_go", "<= 1.0", OursUDPS, WireGuard, OneStream, cpuGB, "cpu_s_per_gb"},
	{"udp_ping_under_load_vs_wireguard_go", "<= 0.25", OursUDPS, WireGuard, LoadedPing, loaded, "median_us"},
	{"stream_carrier_vs_tls", ">= 0.6", OursStreamS, TLS, OneStream, mbps, "mbps"},
	{"stream_forward_vs_splice", ">= 0.35", OursStream, Splices, OneStream, mbps, "mbps"},
	{"stream_forward_vs_wireguard_go", ">= 1.5", OursStream, WireGuard, OneStream, mbps, "mbps"},
	{"stream_forward_cpu_vs_wireguard_go", "<= 0.65", OursStream, WireGuard, OneStream, cpuGB, "cpu_s_per_gb"},
}

// figure computes a ratio from the rounds of both contenders, which must be of
// the same length and order.
func (f ratio) figure(ours, theirs []Result) figures.Figure {
	var samples, own, other []float64
	for i := range ours {
		a, b := f.of(ours[i]), f.of(theirs[i])
		own, other = append(own, a), append(other, b)
		samples = append(samples, a/b)
	}
	return figures.New(f.name, "ratio", f.aim, samples, map[string]float64{
		"ours_" + f.unit: figures.Median(own), "theirs_" + f.unit: figures.Median(other),
	})
}
