// Command cadre-webdemo is the web server of the starter and of the PostgreSQL demo cluster: it
// shows the answering Slot and its release, and the members that answer at its routes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"cadre.dev/demo/load/hosts"
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
	listen, w, err := parse(args, os.Getenv)
	if err != nil {
		return err
	}
	return serve(ctx, listen, w.Handler())
}

// parse reads the command line; the agent's exec has set the CADRE_ variables by the time
// that this runs.
func parse(args []string, env func(string) string) (listen string, w webdemo.Web, err error) {
	w = webdemo.Web{Self: webdemo.Hello{Cluster: env("CADRE_CLUSTER"), Group: env("CADRE_GROUP"), Slot: env("CADRE_SLOT")}}
	if members := env("CADRE_MEMBERS"); members != "" {
		w.Members = strings.Split(members, ",")
	}
	var names, agent string
	flags := flag.NewFlagSet("cadre-webdemo", flag.ContinueOnError)
	flags.StringVar(&listen, "listen", "127.0.0.1:8080", "addresses to serve on, separated by commas; outside:<port> is every address but the loopback's")
	flags.StringVar(&w.Self.Release, "release", "", "any text, which every answer shows")
	flags.StringVar(&w.All, "all", "", "<route>:<port> of its own group, for /all")
	flags.StringVar(&w.Call, "call", "", "URL of another group's /hello by its route, http://<route>:<port>/hello, for /call")
	flags.StringVar(&w.Master, "master", "", "<route>:<port> to the database's leader, for /db")
	flags.StringVar(&w.Replica, "replica", "", "<route>:<port> to the database's replicas, for /db")
	flags.StringVar(&w.User, "user", "app", "user at the database")
	flags.StringVar(&w.Database, "database", "app", "name of the database")
	flags.StringVar(&names, "hosts", "/run/mesh/hosts", "hosts file with the routes' names; without it, the system's")
	flags.StringVar(&agent, "agent", "http://127.0.0.1:7070", "address of the agent; empty: the instance is omitted")
	if err := flags.Parse(args); err != nil {
		return "", w, err
	}
	for _, route := range []struct{ flag, address string }{{"-all", w.All}, {"-master", w.Master}, {"-replica", w.Replica}} {
		if _, _, err := net.SplitHostPort(route.address); err != nil && route.address != "" {
			return "", w, fmt.Errorf("%s %q: give <route>:<port>", route.flag, route.address)
		}
	}
	if (w.Master == "") != (w.Replica == "") {
		return "", w, errors.New("-master and -replica go together: give both routes, or neither")
	}
	if at, err := url.Parse(w.Call); w.Call != "" && (err != nil || at.Scheme != "http" || at.Host == "") {
		return "", w, fmt.Errorf("-call %q: give a URL, http://<route>:<port>/hello", w.Call)
	}
	w.Lookup = hosts.File(names)
	if agent != "" {
		w.Instance = webdemo.Agent(strings.TrimSuffix(agent, "/"))
	}
	return listen, w, nil
}

// serve serves until ctx ends, and then finishes the open requests.
func serve(ctx context.Context, listen string, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	if err := webdemo.Listen(ctx, listen, func(l net.Listener) { _ = server.Serve(l) }); err != nil {
		return errors.Join(fmt.Errorf("-listen: %w", err), server.Close())
	}
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 7*time.Second)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
