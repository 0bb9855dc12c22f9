// Package roles lists the parts that the benchmark's binary plays as a worker.
package roles

import (
	"context"
	"os"

	"cadre.dev/bench/internal/overlay/baseline"
	"cadre.dev/bench/internal/overlay/ours"
	"cadre.dev/lab/worker"
)

// Serve is the whole life of a worker process. Output of libraries goes to standard error, because
// standard output belongs to the benchmark.
func Serve(ctx context.Context) error {
	out := os.Stdout
	os.Stdout = os.Stderr
	return worker.Serve(ctx, os.Stdin, out, map[string]worker.Role{
		"app":         baseline.App,
		"splice":      baseline.Splice,
		"predecessor": baseline.Predecessor,
		"wireguard":   baseline.WireGuard,
		"nebula":      baseline.Nebula,
		"node":        ours.Role,
		"crowd":       ours.Crowd,
	})
}
