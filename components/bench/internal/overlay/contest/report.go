package contest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/figures"
)

// Report is the result of a run. Its JSON is the JSON of every benchmark, with the contenders' own
// numbers and the missing measurements in addition to the figures.
type Report struct {
	figures.Result
	// NotMeasured lists figures without a value, because a needed program or feature is missing.
	NotMeasured []NotMeasured `json:"not_measured,omitempty"`
	Contenders  []Row         `json:"contenders,omitempty"`
	// Congestion is the congestion control of the applications' own TCP.
	Congestion string `json:"congestion"`
	// Failures are measurements that went wrong, with the reason.
	Failures map[string]string `json:"failures,omitempty"`

	// The results of the rounds, by the name of a contender or of a figure.
	results map[string][]Result
	samples map[string][]sample
	missing map[string]string // left out, and why
	failed  map[string]string
}

// NotMeasured is a figure without a value.
type NotMeasured struct {
	Name   string `json:"name"`
	Aim    string `json:"aim"`
	Reason string `json:"reason"`
}

// Row is a contender's medians over the rounds. Zero means not measured.
type Row struct {
	Name   string  `json:"name"`
	Mbps   float64 `json:"mbps"`
	CPU    float64 `json:"cpu_s_per_gb"`
	Tunnel float64 `json:"tunnel_cpu_s_per_gb"`
	Mbps8  float64 `json:"mbps_8_streams"`
	CPU8   float64 `json:"cpu_s_per_gb_8_streams"`
	// Round trips of 64 bytes in microseconds.
	Ping      float64 `json:"ping_us"`
	Ping99    float64 `json:"ping_p99_us"`
	Loaded    float64 `json:"loaded_ping_us"`
	Loaded99  float64 `json:"loaded_ping_p99_us"`
	LeftOut   string  `json:"left_out,omitempty"`
	roundsRun int
}

type sample struct {
	value  float64
	detail map[string]float64
}

func newReport(rounds int, sockets load.Sockets) *Report {
	return &Report{
		Congestion: sockets.Name(),
		Result:     figures.Result{Name: "overlay", Rounds: rounds, Machine: figures.ThisMachine(), Figures: []figures.Figure{}},
		results:    map[string][]Result{}, samples: map[string][]sample{}, missing: map[string]string{}, failed: map[string]string{},
	}
}

// given reports that a name has failed or was left out in an earlier round: it would fail in this
// one.
func (r *Report) given(name string) bool {
	_, missing := r.missing[name]
	_, failed := r.failed[name]
	return missing || failed
}

// ratio adds the figure, or why there is none.
func (r *Report) ratio(f ratio) {
	for _, name := range []string{f.ours, f.theirs} {
		if why, ok := r.failed[name]; ok {
			r.fail(f.name, name+": "+why)
			return
		}
		if why, ok := r.missing[name]; ok {
			r.NotMeasured = append(r.NotMeasured, NotMeasured{f.name, f.aim, name + ": " + why})
			return
		}
	}
	r.Figures = append(r.Figures, f.figure(r.results[f.ours], r.results[f.theirs]))
}

// solo adds the figure, or why there is none. The detail is the median of each of the
// rounds' details.
func (r *Report) solo(s solo) {
	if why, ok := r.failed[s.name]; ok {
		r.fail(s.name, why)
		return
	}
	if why, ok := r.missing[s.name]; ok {
		r.NotMeasured = append(r.NotMeasured, NotMeasured{s.name, s.aim, why})
		return
	}
	var values []float64
	details := map[string][]float64{}
	for _, one := range r.samples[s.name] {
		values = append(values, one.value)
		for name, v := range one.detail {
			details[name] = append(details[name], v)
		}
	}
	detail := map[string]float64{}
	for name, all := range details {
		detail[name] = figures.Median(all)
	}
	f := figures.New(s.name, s.unit, s.aim, values, detail)
	if s.pooled {
		f.Value = mean(values)
	}
	r.Figures = append(r.Figures, f)
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func (r *Report) fail(name, why string) {
	if r.Failures == nil {
		r.Failures = map[string]string{}
	}
	r.Failures[name] = why
}

// contender adds the row of a contender.
func (r *Report) contender(name string) {
	row := Row{Name: name}
	if why, ok := r.failed[name]; ok {
		r.fail(name, why)
		row.LeftOut = why
	} else if why, ok := r.missing[name]; ok {
		row.LeftOut = why
	}
	results := r.results[name]
	row.roundsRun = len(results)
	median := func(of func(Result) float64) float64 {
		var all []float64
		for _, one := range results {
			all = append(all, of(one))
		}
		return figures.Median(all)
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	row.Mbps, row.CPU = median(mbps), median(cpuGB)
	row.Tunnel = median(func(r Result) float64 { return r.One.Tunnel })
	row.Mbps8 = median(func(r Result) float64 { return r.Eight.Mbps })
	row.CPU8 = median(func(r Result) float64 { return r.Eight.CPU })
	row.Ping = median(func(r Result) float64 { return us(r.Idle.Median) })
	row.Ping99 = median(func(r Result) float64 { return us(r.Idle.P99) })
	row.Loaded = median(func(r Result) float64 { return us(r.Loaded.Median) })
	row.Loaded99 = median(func(r Result) float64 { return us(r.Loaded.P99) })
	r.Contenders = append(r.Contenders, row)
}

// Err is nil when every measurement went well; a missed aim is not an error.
func (r *Report) Err() error {
	if len(r.Failures) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(r.Failures))
	return fmt.Errorf("not everything could be measured: %s", strings.Join(names, ", "))
}

// Print writes the tables for people.
func (r *Report) Print(w io.Writer) {
	if len(r.Contenders) > 0 {
		_, _ = fmt.Fprintf(w, "medians of %d rounds; applications use TCP %s\n", r.Rounds, r.Congestion)
		_, _ = fmt.Fprintf(w, "%-20s %8s %8s %8s %8s %8s %9s %9s %9s %9s\n", "clean cable", "Mbps", "cpu s/GB", "(tunnel)", "Mbps x8", "cpu x8", "ping us", "p99", "loaded us", "p99")
		for _, c := range r.Contenders {
			if c.roundsRun == 0 {
				_, _ = fmt.Fprintf(w, "%-20s left out: %s\n", c.Name, c.LeftOut)
				continue
			}
			_, _ = fmt.Fprintf(w, "%-20s", c.Name)
			for _, cell := range []struct {
				width, digits int
				value         float64
			}{{8, 0, c.Mbps}, {8, 2, c.CPU}, {8, 2, c.Tunnel}, {8, 0, c.Mbps8}, {8, 2, c.CPU8}, {9, 0, c.Ping}, {9, 0, c.Ping99}, {9, 0, c.Loaded}, {9, 0, c.Loaded99}} {
				if cell.value == 0 {
					_, _ = fmt.Fprintf(w, " %*s", cell.width, "-")
				} else {
					_, _ = fmt.Fprintf(w, " %*.*f", cell.width, cell.digits, cell.value)
				}
			}
			_, _ = fmt.Fprintln(w)
		}
		_, _ = fmt.Fprintln(w)
	}
	r.Result.Print(w)
	for _, n := range r.NotMeasured {
		_, _ = fmt.Fprintf(w, "  %-36s not measured (aim %s): %s\n", n.Name, n.Aim, n.Reason)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Failures)) {
		_, _ = fmt.Fprintf(w, "  %-36s FAILED: %s\n", name, r.Failures[name])
	}
}

// Write writes the JSON, making the folder.
func (r *Report) Write(path string) error { return figures.Write(path, r) }

// String is a round's result in a line.
func (r Result) String() string {
	var parts []string
	if r.Idle.Count > 0 {
		parts = append(parts, "ping "+trip(r.Idle))
	}
	if r.One.Mbps > 0 {
		parts = append(parts, fmt.Sprintf("%.0f Mbps at %.2f cpu s/GB", r.One.Mbps, r.One.CPU))
	}
	if r.Eight.Mbps > 0 {
		parts = append(parts, fmt.Sprintf("x8 %.0f Mbps", r.Eight.Mbps))
	}
	if r.Loaded.Count > 0 {
		parts = append(parts, "loaded ping "+trip(r.Loaded))
	}
	return strings.Join(parts, ", ")
}

func trip(l load.Latency) string {
	return fmt.Sprintf("%v (p99 %v)", l.Median.Round(time.Microsecond), l.P99.Round(time.Microsecond))
}
