package simulator_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cadre.dev/raced"
	"cadre.dev/simulator"
	"cadre.dev/simulator/plan"
)

var (
	every = flag.Int("every", 10, "TestCrashPoints: try each so many-th point")
	pairs = flag.Int("pairs", 0, "TestCrashPoints: how many pairs of points to try of each plan, besides")
)

// TestCrashPoints: a coordinator dies between two steps of its work, at each point of a few plans
// in turn. The coordinators that go on keep every promise and reach the same end state. Under the
// race detector the test tries a thirtieth of the points.
func TestCrashPoints(t *testing.T) {
	every := *every
	if raced.Enabled {
		every *= 30
	}
	tried, _ := sweep(t, every, *pairs)
	fmt.Printf("%d crash points tried\n", tried)
}

// sweep tries every n-th point of all plans, and pairs of each, and counts the faults.
func sweep(t *testing.T, every, pairs int) (tried, wrong int64) {
	t.Helper()
	files, err := filepath.Glob("testdata/crashes/*.plan")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	var all, bad atomic.Int64
	t.Run("plans", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".plan"), func(t *testing.T) {
				t.Parallel()
				p := read(t, file)
				steps, ends := simulator.Steps(t, p)
				for _, points := range pointsOf(t, steps, every, pairs) {
					all.Add(1)
					if c := simulator.CrashAt(t, p, ends, points...); c.Wrong != "" {
						bad.Add(1)
						t.Errorf("a crash after step %v:\n%s", points, c.Wrong)
					}
				}
			})
		}
	})
	return all.Load(), bad.Load()
}

// pointsOf are every n-th of steps, and sampled pairs: the second falls into the recovery of the
// first.
func pointsOf(t *testing.T, steps, every, pairs int) (out [][]int) {
	t.Helper()
	if steps < 2*every && !raced.Enabled {
		t.Fatalf("it takes %d steps: every %d-th of them says nothing", steps, every)
	}
	for n := 1; n <= steps; n += every {
		out = append(out, []int{n})
	}
	for range pairs {
		first := 1 + rand.IntN(steps)
		out = append(out, []int{first, first + 1 + rand.IntN(40)})
	}
	return out
}

func read(t *testing.T, file string) plan.Plan {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
