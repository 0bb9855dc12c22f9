package simulator_test

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"cadre.dev/simulator"
	"cadre.dev/simulator/plan"
)

var (
	seed  = flag.Uint64("seed", 0, "run this seed alone, and print its trace")
	seeds = flag.Uint64("seeds", 20, "run so many seeds")
)

func TestSeeds(t *testing.T) {
	if *seed != 0 {
		out := simulator.Run(t, plan.Draw(*seed), slog.New(slog.NewTextHandler(os.Stderr, nil)))
		t.Logf("%+v\n%s", plan.Draw(*seed), out)
		return
	}
	for n := range *seeds {
		out := simulator.Run(t, plan.Draw(n+1), nil)
		last := out[len(out)-1]
		t.Logf("seed %d: %d events, %v: %s", n+1, len(out), last.At, last.Resting["pg"])
	}
}
