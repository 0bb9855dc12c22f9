// Command cadre-rendezvous is the public meeting place of overlays: mailboxes,
// STUN and TURN.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"cadre.dev/logging"
	"cadre.dev/overlay/rendezvous"
)

// version is set at link time.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0 stopped by a signal, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "cadre-rendezvous: %v\nRun cadre-rendezvous --help for the flags.\n", err)
		return 2
	case o.showVersion:
		_, _ = fmt.Fprintln(stdout, "cadre-rendezvous", version)
		return 0
	}
	o.config.Log = logging.New("cadre-rendezvous", o.logLevel, stderr)
	s, err := rendezvous.New(ctx, o.config)
	if err == nil {
		err = o.writeCA(s.CA())
		if err == nil {
			err = s.Run(ctx)
		} else {
			err = errors.Join(err, s.Close())
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "cadre-rendezvous: %v\n", err)
		return 1
	}
	return 0
}
