package contest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/figures"
)

func TestRatioIsTakenInsideEachRound(t *testing.T) {
	f := ratio{name: "x", aim: ">= 1.0", of: mbps, unit: "mbps"}
	flow := func(all ...float64) (out []Result) {
		for _, v := range all {
			out = append(out, Result{One: Flow{Mbps: v}})
		}
		return out
	}
	// The machine was twice as fast in the second round: no ratio may notice.
	got := f.figure(flow(100, 220, 120), flow(100, 200, 100))
	if want := 1.1; got.Value < want-1e-9 || got.Value > want+1e-9 {
		t.Errorf("value %v, want %v", got.Value, want)
	}
	if len(got.Samples) != 3 || got.Detail["ours_mbps"] != 120 || got.Detail["theirs_mbps"] != 100 {
		t.Errorf("got %+v", got)
	}
}

func TestEveryFigureHasAReadableAim(t *testing.T) {
	aims := map[string]string{}
	for _, f := range ratios {
		aims[f.name] = f.aim
	}
	for _, s := range solos {
		aims[s.name] = s.aim
	}
	if len(aims) != len(ratios)+len(solos) {
		t.Errorf("two figures have the same name")
	}
	for name, aim := range aims {
		low, high := figures.Figure{Aim: aim}, figures.Figure{Aim: aim, Value: 1e9}
		if low.Reached() == high.Reached() {
			t.Errorf("%s: aim %q cannot be read", name, aim)
		}
	}
}

func TestRatiosNameContenders(t *testing.T) {
	known := map[string]bool{}
	for _, c := range Contenders() {
		known[c.Name] = true
	}
	for _, f := range ratios {
		if !known[f.ours] || !known[f.theirs] {
			t.Errorf("%s compares %s with %s", f.name, f.ours, f.theirs)
		}
	}
}

// filled is a report with one figure of each fate.
func filled(t *testing.T) *Report {
	t.Helper()
	r := newReport(2, load.Sockets{Congestion: "reno"})
	r.results["a"] = []Result{{One: Flow{Mbps: 10, CPU: 2}}, {One: Flow{Mbps: 30, CPU: 4}}}
	r.results["b"] = []Result{{One: Flow{Mbps: 10}}, {One: Flow{Mbps: 10}}}
	r.missing["c"], r.failed["d"] = "not built", "broke"
	for _, f := range []ratio{
		{name: "a_vs_b", aim: ">= 3.0", ours: "a", theirs: "b", of: mbps, unit: "mbps"},
		{name: "a_vs_c", aim: ">= 1.0", ours: "a", theirs: "c", of: mbps, unit: "mbps"},
		{name: "d_vs_b", aim: ">= 1.0", ours: "d", theirs: "b", of: mbps, unit: "mbps"},
	} {
		r.ratio(f)
	}
	r.samples["gap"] = []sample{{0.2, map[string]float64{"x": 1}}, {0.4, map[string]float64{"x": 3}}}
	r.solo(solo{name: "gap", unit: "s", aim: "<= 1.0"})
	for _, name := range []string{"a", "c", "d"} {
		r.contender(name)
	}
	return r
}

func TestFiguresThatWereNotMeasuredHaveNoValue(t *testing.T) {
	r := filled(t)
	if len(r.Figures) != 2 || r.Figures[0].Name != "a_vs_b" || r.Figures[1].Name != "gap" {
		t.Fatalf("figures %+v", r.Figures)
	}
	if got := r.Figures[1]; got.Detail["x"] != 2 || got.Value < 0.29 || got.Value > 0.31 {
		t.Errorf("gap %+v, want medians", got)
	}
	if len(r.NotMeasured) != 1 || r.NotMeasured[0].Name != "a_vs_c" || !strings.Contains(r.NotMeasured[0].Reason, "not built") {
		t.Errorf("not measured %+v", r.NotMeasured)
	}
}

func TestMissedAimIsNoErrorButAFailureIs(t *testing.T) {
	r := newReport(1, load.Sockets{Congestion: "reno"})
	r.samples["slow"] = []sample{{9, nil}}
	r.solo(solo{name: "slow", unit: "s", aim: "<= 1.0"})
	if err := r.Err(); err != nil {
		t.Errorf("missed aim: %v", err)
	}
	if err := filled(t).Err(); err == nil || !strings.Contains(err.Error(), "d_vs_b") {
		t.Errorf("failure: %v", err)
	}
}

func TestPrintShowsEveryFate(t *testing.T) {
	var out bytes.Buffer
	filled(t).Print(&out)
	for _, want := range []string{"a_vs_b", "MISSED", "a_vs_c", "not measured (aim >= 1.0): c: not built", "d_vs_b", "FAILED: d: broke", "c                    left out: not built", "TCP reno"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestWrittenReportIsTheFormOfAllBenchmarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "bench-overlay.json")
	if err := filled(t).Write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got figures.Result
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "overlay" || got.Rounds != 2 || len(got.Figures) != 2 || got.Machine.CPUs < 1 {
		t.Errorf("got %+v", got)
	}
	if len(got.Figures[0].Samples) != 2 {
		t.Errorf("samples %v", got.Figures[0].Samples)
	}
}

func TestShareOfTriesForgetsNoRound(t *testing.T) {
	r := newReport(3, load.Sockets{Congestion: "reno"})
	r.samples["share"] = []sample{{1, nil}, {1, nil}, {0.4, nil}}
	r.solo(solo{name: "share", unit: "share", aim: ">= 0.99", pooled: true})
	if got := r.Figures[0]; got.Value < 0.79 || got.Value > 0.81 || got.Reached() {
		t.Errorf("got %v, want 0.8 and missed", got.Value)
	}
}

func TestFlowIsPerGigabyte(t *testing.T) {
	before := reading{count: load.Count{Bytes: 1e9, At: time.Second}, cpu: time.Second, tunnel: time.Second}
	after := reading{count: load.Count{Bytes: 3e9, At: 3 * time.Second}, cpu: 5 * time.Second, tunnel: 2 * time.Second}
	f, err := after.since(before)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Flow{Mbps: 8000, CPU: 2, Tunnel: 0.5}); f != want {
		t.Errorf("got %+v, want %+v", f, want)
	}
	if _, err := before.since(before); err == nil {
		t.Error("no bytes gave a flow")
	}
}
