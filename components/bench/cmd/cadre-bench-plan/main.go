// Command cadre-bench-plan measures the cost of the planner's decisions, prints a table and writes
// the figures as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"cadre.dev/bench/internal/plan"
	"cadre.dev/bench/internal/program"
	"cadre.dev/figures"
)

func main() {
	program.Main(program.Program{
		Name: "cadre-bench-plan", Bench: bench,
	})
}

// bench exits well when aims are missed, and with an error when a measurement failed.
func bench(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cadre-bench-plan", flag.ContinueOnError)
	out := flags.String("out", ".out/bench-plan.json", "where to write the figures")
	rounds := flags.Int("rounds", 5, "how often everything is measured; medians are taken")
	spend := flags.Duration("spend", 500*time.Millisecond, "how long each size is planned again and again in a round; at least once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 {
		return errors.New("--rounds: at least 1 is needed")
	}
	report, err := plan.Run(ctx, plan.Options{Rounds: *rounds, Spend: *spend, Progress: os.Stderr})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	case err != nil:
		return err
	}
	report.Print(os.Stdout)
	return figures.Write(*out, report)
}
