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

	"cadre.dev/simulator"
	"cadre.dev/simulator/plan"
)

var (
	every = flag.Int("every", 10, "TestCrashPoints: try each so many-th point")
	pairs = flag.Int("pairs", 0, "TestCrashPoints: how many pairs of points to try of each plan, besides")
)

// TestCrashPoints: a coordinator dies between two steps of its work, at one point of each of a few
// plans after the other. Whoever goes on keeps every promise and comes to the same end.
func TestCrashPoints(t *testing.T) {
	files, err := filepath.Glob("testdata/crashes/*.plan")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	var tried atomic.Int64
	t.Run("plans", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".plan"), func(t *testing.T) {
				t.Parallel()
				tried.Add(int64(crashAll(t, read(t, file))))
			})
		}
	})
	fmt.Printf("%d crash points tried\n", tried.Load())
}

// crashAll tries the points of p, and says how many.
func crashAll(t *testing.T, p plan.Plan) int {
	t.Helper()
	steps, ends := simulator.Steps(t, p)
	if steps < 2**every {
		t.Fatalf("it takes %d steps: every %d-th of them says nothing", steps, *every)
	}
	tried := 0
	try := func(points ...int) {
		tried++
		if c := simulator.CrashAt(t, p, ends, points...); c.Wrong != "" {
			t.Errorf("a crash after step %v:\n%s", points, c.Wrong)
		}
	}
	for n := 1; n <= steps; n += *every {
		try(n)
	}
	for range *pairs {
		first := 1 + rand.IntN(steps)     //nolint:gosec // which pairs is no secret
		try(first, first+1+rand.IntN(40)) //nolint:gosec // the second falls into what comes of the first
	}
	return tried
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
