// Command cadre is the operator's tool: it makes clusters, applies groups,
// watches rollouts, and runs a local cloud.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"cadre.dev/cli/internal/command"
)

// version is set by the linker.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	app := &command.App{Out: os.Stdout, Err: os.Stderr, Version: version}
	code := app.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
