// Package program has the common parts of the benchmarks' programs.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"cadre.dev/lab/worker"
)

// Program is one benchmark's.
type Program struct {
	Name string
	// Bench measures. An error means that a measurement failed; a missed aim is none.
	Bench func(ctx context.Context, args []string) error
	// Work serves one run of the program as a worker of itself, until its input ends; nil:
	// it has no workers.
	Work func(ctx context.Context) error
}

// Main runs p with the process's arguments, until it is done or interrupted. The process
// ends with code 1 when that gave an error, which is printed; a request for help is none.
func Main(p Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := p.run(ctx, os.Args[1:])
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
	stop()
	os.Exit(1) //nolint:gocritic // stop has been called
}

func (p Program) run(ctx context.Context, args []string) error {
	if p.Work != nil && len(args) == 1 && args[0] == worker.Argument {
		// A worker ends with its input: an interrupt is for the benchmark alone.
		return p.Work(context.WithoutCancel(ctx))
	}
	return p.Bench(ctx, args)
}

// CreateLog makes the file that measured programs write to, and its folder.
func CreateLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	return os.Create(path)
}
