// Command cadre-bench-scale measures the cost of a growing cluster and its recovery times, prints a
// table and writes the figures as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cadre.dev/bench/internal/program"
	"cadre.dev/bench/internal/scale"
	"cadre.dev/core/group"
	"cadre.dev/figures"
	"cadre.dev/lab/worker"
	"cadre.dev/store/localconsul"
)

func main() {
	program.Main(program.Program{
		Name: "cadre-bench-scale", Bench: bench,
		Work: func(ctx context.Context) error {
			return worker.Serve(ctx, os.Stdin, os.Stdout, scale.Roles())
		},
	})
}

// bench exits well when aims are missed, and with an error when a measurement failed; the
// figures of the others are written before.
func bench(ctx context.Context, args []string) error {
	o := scale.Options{Progress: os.Stderr}
	flags := flag.NewFlagSet("cadre-bench-scale", flag.ContinueOnError)
	out := flags.String("out", ".out/bench-scale.json", "where to write the figures")
	sizes := flags.String("sizes", "100,1000,5000,10000", "numbers of agents to grow to, in groups of 3")
	flags.DurationVar(&o.Window, "window", 30*time.Second, "how long an idle cluster is looked at")
	flags.IntVar(&o.Fleets, "fleets", 10, "how many processes play agents")
	flags.IntVar(&o.Large, "large", 1000, "how many agents one more group has after the sizes (0: there is none)")
	flags.IntVar(&o.StormAt, "storm", 1000, "at which size all agents restart at once")
	flags.IntVar(&o.Orders, "orders", 100, "how many groups roll, for the time from a spec to the first order")
	flags.DurationVar(&o.OrderEvery, "order-every", 200*time.Millisecond, "how far apart their specs are")
	flags.DurationVar(&o.GrowLimit, "grow-limit", 10*time.Minute, "how long the growth to a size may take")
	flags.DurationVar(&o.StormLimit, "storm-limit", 2*time.Minute, "after how long an agent without Sessions and orders is lost")
	flags.BoolVar(&o.OnlyCoordinators, "only-coordinators", false, "open no Sessions between members, whatever their peer maps name")
	only := flags.String("only", "", "measure only what matches this regular expression: idle, storm, orders, large, takeovers")
	flags.StringVar(&o.Profile, "profile", "", "folder for CPU profiles of the leader and its Consul server, idle and growing; they cost some CPU themselves (empty: none)")
	flags.StringVar(&o.Consul, "consul", "", "Consul's program (empty: CADRE_CONSUL, .tools/bin/consul, or PATH)")
	logPath := flags.String("log", ".out/bench-scale.log", "output of the processes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if o.Sizes, err = numbers(*sizes); err != nil {
		return err
	}
	if o.Large < 0 || o.Large > group.MaxReplicas {
		return fmt.Errorf("--large %d: a group has from 1 to %d agents; 0 is none", o.Large, group.MaxReplicas)
	}
	if o.Fleets < 1 || o.Orders < 1 || o.Window < time.Second {
		return errors.New("--fleets and --orders: at least 1; --window: at least 1s")
	}
	if *only != "" {
		if o.Only, err = regexp.Compile(*only); err != nil {
			return fmt.Errorf("--only: %w", err)
		}
	}
	if o.Consul == "" {
		if o.Consul, err = localconsul.Binary(); err != nil {
			return err
		}
	}
	if o.Consul, err = filepath.Abs(o.Consul); err != nil {
		return err
	}
	if o.Log, err = program.CreateLog(*logPath); err != nil {
		return err
	}
	defer func() { _ = o.Log.Close() }()
	report, failed := scale.Run(ctx, o)
	if ctx.Err() != nil {
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	report.Print(os.Stdout)
	return errors.Join(failed, figures.Write(*out, report))
}

// numbers reads sizes, growing.
func numbers(list string) ([]int, error) {
	var out []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--sizes: %q is no number of agents; want e.g. 100,1000", text)
		}
		out = append(out, n)
	}
	if !slices.IsSorted(out) {
		return nil, fmt.Errorf("--sizes: %s shrinks; a cluster is grown", list)
	}
	return out, nil
}
