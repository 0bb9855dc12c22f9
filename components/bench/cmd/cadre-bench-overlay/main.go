// Command cadre-bench-overlay measures the overlay against its competitors and
// its aims, prints a table and writes the figures as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"cadre.dev/bench/internal/overlay/contest"
	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/bench/internal/overlay/roles"
	"cadre.dev/bench/internal/program"
)

func main() {
	program.Main(program.Program{
		Name: "cadre-bench-overlay", Bench: bench,
		Work: roles.Serve,
	})
}

// bench exits well when aims are missed, and with an error when a measurement
// failed.
func bench(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cadre-bench-overlay", flag.ContinueOnError)
	out := flags.String("out", ".out/bench-overlay.json", "where to write the figures")
	rounds := flags.Int("rounds", 3, "how often everything is measured; medians are taken")
	seconds := flags.Float64("seconds", 3, "how long each workload is measured")
	only := flags.String("only", "", "measure only figures and contenders whose name matches this regular expression")
	congestion := flags.String("congestion", "", "congestion control of the applications' own TCP connections (empty: the machine's default)")
	rendezvous := flags.String("rendezvous", sibling("cadre-rendezvous"), "the rendezvous server's program")
	logPath := flags.String("log", ".out/bench-overlay.log", "output of the measured programs")
	debug := flags.Bool("debug", false, "let our own nodes log all they can")
	if err := flags.Parse(args); err != nil {
		return err
	}
	options := contest.Options{
		Rounds: *rounds, Window: time.Duration(*seconds * float64(time.Second)), Rendezvous: *rendezvous, Progress: os.Stderr, Debug: *debug,
		Sockets: load.Sockets{Congestion: *congestion},
	}
	if *only != "" {
		expression, err := regexp.Compile(*only)
		if err != nil {
			return fmt.Errorf("--only: %w", err)
		}
		options.Only = expression
	}
	log, err := program.CreateLog(*logPath)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	options.Log = log
	report, err := contest.Run(ctx, options)
	if err != nil {
		return err
	}
	report.Print(os.Stdout)
	return errors.Join(report.Write(*out), report.Err())
}

// sibling returns a program's path in this program's folder.
func sibling(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}
