// Command cadre-webdemo is the web server of the starter cluster: it says which Slot
// answers and in which release, and, with -call, what each member of another group says.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"cadre.dev/demo/webdemo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-webdemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	// The agent's exec has set CADRE_SLOT by the time that this runs.
	w := webdemo.Web{Slot: os.Getenv("CADRE_SLOT")}
	var listen string
	flags := flag.NewFlagSet("cadre-webdemo", flag.ContinueOnError)
	flags.StringVar(&listen, "listen", "127.0.0.1:8080", "address to serve on")
	flags.StringVar(&w.Release, "release", "", "any text, which every answer shows")
	flags.StringVar(&w.Call, "call", "", "group whose members are asked for each answer")
	flags.IntVar(&w.CallPort, "port", 0, "port of those members")
	flags.StringVar(&w.Hosts, "hosts", "/run/mesh/hosts", "hosts file with the Peers' names")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if w.Call != "" && w.CallPort == 0 {
		return errors.New("-call needs -port, the members' port")
	}
	server := &http.Server{Addr: listen, Handler: w.Handler(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(closing)
	})
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("-listen: %w", err)
	}
	<-closed
	return nil
}
