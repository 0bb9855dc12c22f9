// Command cadre-bench-admission measures the coordinators' cost of admission and of the renewal of
// credentials, prints a table and writes the figures as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"cadre.dev/bench/internal/admission/contest"
	"cadre.dev/bench/internal/admission/server"
	"cadre.dev/bench/internal/program"
	"cadre.dev/figures"
	"cadre.dev/lab/worker"
	"cadre.dev/store/localconsul"
)

func main() {
	program.Main(program.Program{
		Name: "cadre-bench-admission", Bench: bench,
		Work: func(ctx context.Context) error {
			return worker.Serve(ctx, os.Stdin, os.Stdout, map[string]worker.Role{server.Name: server.Role})
		},
	})
}

// bench exits well when aims are missed, and with an error when a measurement failed.
func bench(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cadre-bench-admission", flag.ContinueOnError)
	out := flags.String("out", ".out/bench-admission.json", "where to write the figures")
	rounds := flags.Int("rounds", 3, "how often everything is measured; medians are taken")
	agents := flags.Int("agents", 1000, "how many Slots there are, all of which restart at once in the storm; not 1000: a trial")
	quote := flags.Duration("quote-latency", 0, "duration of one quote of a coordinator")
	slow := flags.Duration("slow-quote", 500*time.Millisecond, "the same for one more storm, whose time is listed in addition; 0: none")
	limit := flags.Duration("storm-limit", 3*time.Minute, "after how long an agent that is not admitted is lost")
	only := flags.String("only", "", "measure only what matches this regular expression: verification, admissions and renewals, storm")
	consul := flags.String("consul", "", "Consul's program (empty: CADRE_CONSUL, .tools/bin/consul, or PATH)")
	logPath := flags.String("log", ".out/bench-admission.log", "output of the coordinators")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 || *agents < 10 {
		return errors.New("at least 1 round and 10 agents are needed")
	}
	if *consul == "" {
		var err error
		if *consul, err = localconsul.Binary(); err != nil {
			return err
		}
	}
	log, err := program.CreateLog(*logPath)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	options := contest.Options{
		Rounds: *rounds, Agents: *agents, QuoteLatency: *quote, SlowQuote: *slow, StormLimit: *limit,
		Consul: *consul, Log: log, Progress: os.Stderr,
	}
	if *only != "" {
		if options.Only, err = regexp.Compile(*only); err != nil {
			return fmt.Errorf("--only: %w", err)
		}
	}
	report, err := contest.Run(ctx, options)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	case err != nil:
		return err
	}
	report.Print(os.Stdout)
	return figures.Write(*out, report)
}
