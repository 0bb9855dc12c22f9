package simulator_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/figures"
	"cadre.dev/raced"
	"cadre.dev/simulator"
	"cadre.dev/simulator/check"
	"cadre.dev/simulator/plan"
)

var (
	seed     = flag.Uint64("seed", 0, "TestSeed: the seed to run; its trace is printed")
	file     = flag.String("plan", "", "TestSeed: a file with the plan to run, in place of a seed")
	many     = flag.Int("seeds", raced.Tenth(12), "TestSeeds: how many seeds to run, from 1 on; a tenth by default under the race detector")
	times    = flag.Int("times", 1, "TestSeed: how often, at most; it ends where a promise breaks")
	restless = flag.Bool("restless", false, "TestSeed: it ends as well where a group does not rest at the end")
	fresh    = flag.Int("fresh", 0, "TestFreshSeeds: how many seeds to run that were not run before; 0: none")
	from     = flag.Uint64("fresh-from", 0, "TestFreshSeeds: the first of them; 0: the clock's")
	long     = flag.Duration("for", 0, "TestHunt: how long to run fresh seeds; 0: not at all")
	report   = flag.String("report", "", "TestHunt: where to write the figures")
	// Results of other commands, for the report.
	mutants = flag.String("mutants", "", "TestHunt: what core-mutants wrote; empty: the report says nothing of it")
	covered = flag.Float64("covered", 0, "TestHunt: what core-coverage.sh printed; 0: the report says nothing of it")
)

// TestSeeds: the same few seeds each time.
func TestSeeds(t *testing.T) {
	left := *many
	sum := simulator.Hunt(t, 1, runtime.GOMAXPROCS(0), func(simulator.HuntResult) bool {
		left--
		return left >= 0
	})
	if sum.Seeds != *many || sum.Faults == 0 {
		t.Errorf("%d seeds of %d ran, with %d faults", sum.Seeds, *many, sum.Faults)
	}
	fmt.Println(sum)
	maps.Copy(sum.Broken, sum.Stuck) // these seeds are the same each time
	explain(t, sum)
}

// TestFreshSeeds runs new seeds. Their number is given and not the time, and the first seed may be
// given. A slow machine therefore runs the same seeds as a fast one, and the same command runs them
// again. The first seed is printed at once. Seeds are consecutive, so each can be replayed even if
// the process is killed. Seeds that are stuck until a deadline are counted. They fail nothing here
// while they are few: `make sim-hunt` looks for them.
func TestFreshSeeds(t *testing.T) {
	if *fresh == 0 {
		t.Skip("no -fresh: scripts/test.sh")
	}
	first := *from
	if first == 0 {
		first = uint64(time.Now().UnixMicro())
	}
	fmt.Printf("fresh seeds from %d\n", first)
	left := *fresh
	sum := simulator.Hunt(t, first, runtime.GOMAXPROCS(0), func(simulator.HuntResult) bool {
		left--
		return left >= 0
	})
	if sum.Seeds != *fresh || sum.Faults == 0 {
		t.Errorf("%d seeds of %d ran, with %d faults", sum.Seeds, *fresh, sum.Faults)
	}
	fmt.Printf("fresh seeds from %d: %s; replay one: make sim SEED=%d\n", first, sum, first)
	// Fewer than one in two hundred is stuck. If a step never ends in all groups, more are.
	if len(sum.Stuck) > 2 && len(sum.Stuck)*30 > sum.Seeds {
		maps.Copy(sum.Broken, sum.Stuck)
	}
	explain(t, sum)
}

// TestSeed runs one seed, or a plan in a file, and prints all events.
func TestSeed(t *testing.T) {
	if *seed == 0 && *file == "" {
		t.Skip("no -seed and no -plan: make sim")
	}
	p := plan.Draw(*seed)
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = plan.Parse(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; ; n++ {
		out := simulator.Run(t, p, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		broken := check.Run(out)
		calm := !*restless || strings.Join(slices.Collect(maps.Values(out[len(out)-1].Resting)), "") == ""
		if len(broken) == 0 && calm && n < *times {
			continue
		}
		fmt.Printf("time %d of %d\n%s\n", n, *times, simulator.Explain(p, out, broken))
		if len(broken) > 0 {
			t.Errorf("%d promises are broken", len(broken))
		}
		return
	}
}

// TestHunt runs new seeds, and writes their number.
func TestHunt(t *testing.T) {
	if *long == 0 {
		t.Skip("no -for: make sim-hunt, make sim-report")
	}
	first, began := uint64(time.Now().UnixMicro()), time.Now()
	said := began
	sum := simulator.Hunt(t, first, runtime.GOMAXPROCS(0), func(sum simulator.HuntResult) bool {
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			fmt.Printf("%s: %d seeds, %d faults, %d broken\n", time.Since(began).Round(time.Second), sum.Seeds, sum.Faults, len(sum.Broken))
		}
		return time.Since(began) < *long && len(sum.Broken) == 0 && (*report != "" || len(sum.Stuck) == 0)
	})
	if *report == "" {
		maps.Copy(sum.Broken, sum.Stuck)
	}
	explain(t, sum)
	result := figures.Result{Name: "sim", Rounds: sum.Seeds, Machine: figures.ThisMachine(), Figures: []figures.Figure{
		one("seeds_without_violation", "seeds", ">= 200000", float64(sum.Seeds-len(sum.Broken)), map[string]float64{"first_seed": float64(first), "virtual_hours": sum.Virtual.Hours()}),
		one("seeds_at_rest", "seeds", "", float64(sum.AtRest), nil),
		one("seeds_per_core_minute", "seeds", ">= 300", float64(sum.Seeds)/sum.Core.Minutes(), nil),
		one("faults_injected", "faults", ">= 1000000", float64(sum.Faults), nil),
		one("violations", "seeds", "<= 0", float64(len(sum.Broken)), nil),
		one("seeds_stuck", "seeds", "<= 0", float64(len(sum.Stuck)), nil),
	}}
	if *report != "" {
		result.Figures = append(result.Figures, beside(t)...)
	}
	result.Print(os.Stdout)
	if *report != "" {
		if err := figures.Write(*report, result); err != nil {
			t.Error(err)
		}
	}
}

// These are the figures of a report that do not come from fresh seeds.
func beside(t *testing.T) []figures.Figure {
	t.Helper()
	begun := healed(simulator.Run(t, read(t, "testdata/split.plan"), nil))
	replaced := len(slices.DeleteFunc(begun, func(k operation.Kind) bool { return k != operation.Replace }))
	tried, wrong := sweep(t, 1, *pairs)
	out := []figures.Figure{
		one("split_third_of_fleet_replacements", "replacements", "<= 0", float64(replaced), nil),
		one("crash_points_tried", "runs", ">= 600", float64(tried), map[string]float64{"pairs_of_each_plan": float64(*pairs)}),
		one("crash_points_wrong", "runs", "<= 0", float64(wrong), nil),
	}
	if *covered > 0 {
		out = append(out, one("core_statements_covered_percent", "%", ">= 95", *covered, nil))
	}
	if *mutants == "" {
		return out
	}
	text, err := os.ReadFile(*mutants)
	if err != nil {
		t.Fatal(err)
	}
	var found struct{ Tried, Killed int }
	if err := json.Unmarshal(text, &found); err != nil || found.Tried == 0 {
		t.Fatalf("%s: %d mutants: %v", *mutants, found.Tried, err)
	}
	percent := 100 * float64(found.Killed) / float64(found.Tried)
	return append(out, one("core_mutants_killed_percent", "%", ">= 90", percent, map[string]float64{"tried": float64(found.Tried)}))
}

func one(name, unit, aim string, value float64, detail map[string]float64) figures.Figure {
	return figures.New(name, unit, aim, []float64{value}, detail)
}

// explain shortens the first seed that broke a promise, and fails. If the shorter plan breaks the
// promise only sometimes, it prints the trace of the seed itself.
func explain(t *testing.T, sum simulator.HuntResult) {
	t.Helper()
	seeds := slices.Sorted(maps.Keys(sum.Broken))
	for _, seed := range seeds {
		first := sum.Broken[seed].Promises[0]
		t.Errorf("seed %d broke %s: %s; replay it: make sim SEED=%d", seed, first.ID, first.Message, seed)
	}
	if len(seeds) == 0 {
		return
	}
	seed := seeds[0]
	as := sum.Broken[seed]
	p := simulator.Shorten(t, plan.Draw(seed), as.Promises[0])
	out, broken := simulator.Judge(t, p)
	if len(broken) == 0 {
		t.Errorf("seed %d, as it ran:\n%s", seed, simulator.Explain(plan.Draw(seed), as.Trace, as.Promises))
	}
	t.Errorf("seed %d, shortened:\n%s", seed, simulator.Explain(p, out, broken))
}
