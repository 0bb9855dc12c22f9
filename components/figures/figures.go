// Package figures is the one form in which every benchmark reports: a table for
// people and JSON for machines. A figure that misses its aim is printed as missed.
package figures

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Result is a benchmark's whole report, written to .out/bench-<name>.json.
type Result struct {
	Name    string   `json:"name"`
	Rounds  int      `json:"rounds"`
	Machine Machine  `json:"machine"`
	Figures []Figure `json:"figures"`
}

// Machine describes the measuring machine.
type Machine struct {
	CPUs   int    `json:"cpus"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
}

// Figure is one measured number with its target.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Aim reads "<= 10" or ">= 1.0"; empty: nothing particular was wanted.
	Aim     string             `json:"aim"`
	Samples []float64          `json:"samples"`
	Detail  map[string]float64 `json:"detail,omitempty"`
}

// New makes a figure from its samples; its value is their median.
func New(name, unit, aim string, samples []float64, detail map[string]float64) Figure {
	return Figure{Name: name, Value: Median(samples), Unit: unit, Aim: aim, Samples: samples, Detail: detail}
}

// Median of values; 0 when there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Reached reports whether the value meets the aim; an aim that cannot be read is not met.
func (f Figure) Reached() bool {
	var bound float64
	var sign string
	if _, err := fmt.Sscanf(f.Aim, "%s %g", &sign, &bound); err != nil {
		return false
	}
	switch sign {
	case "<=":
		return f.Value <= bound
	case ">=":
		return f.Value >= bound
	default:
		return false
	}
}

// Missed reports whether there is an aim that the value does not meet.
func (f Figure) Missed() bool { return f.Aim != "" && !f.Reached() }

// Print writes the table.
func (r Result) Print(w io.Writer) {
	fmt.Fprintf(w, "%s: %d rounds on %d CPUs (%s), kernel %s\n", r.Name, r.Rounds, r.Machine.CPUs, r.Machine.CPU, r.Machine.Kernel)
	for _, f := range r.Figures {
		verdict := "reached"
		switch {
		case f.Missed():
			verdict = "MISSED"
		case f.Aim == "":
			verdict = "-"
		}
		fmt.Fprintf(w, "  %-32s %10.2f %-8s aim %-10s %s  samples %.2f\n", f.Name, f.Value, f.Unit, f.Aim, verdict, f.Samples)
	}
}

// ThisMachine describes the machine that runs this.
func ThisMachine() Machine {
	return Machine{CPUs: runtime.NumCPU(), CPU: cpuModel(), Kernel: kernel()}
}

func cpuModel() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func kernel() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return "unknown"
	}
	var release []byte
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		release = append(release, byte(c))
	}
	return string(release)
}
