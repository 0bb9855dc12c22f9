// Command cadre-bench-overlay measures the overlay against its competitors and
// its aims, prints a table and writes the figures as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"cadre.dev/bench/internal/overlay/contest"
	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/bench/internal/overlay/roles"
	"cadre.dev/lab/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := start(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cadre-bench-overlay:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func start(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == worker.Argument {
		// A worker ends with its input: an interrupt is for the benchmark alone.
		return roles.Serve(context.WithoutCancel(ctx))
	}
	return bench(ctx, args)
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
	rendezvous := flags.String("rendezvous", beside("cadre-rendezvous"), "the rendezvous server's program")
	logPath := flags.String("log", ".out/bench-overlay.log", "what the measured programs say")
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
	if err := os.MkdirAll(filepath.Dir(*logPath), 0o750); err != nil {
		return err
	}
	log, err := os.Create(*logPath)
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

// beside names a program in this one's folder.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}
