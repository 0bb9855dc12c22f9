// Command cadre-agent is the sidecar of a workload CVM: it requests the Boot's admission, connects
// it to its Peers, and carries out the leader's orders.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"cadre.dev/agent/internal/agent"
	"cadre.dev/agent/internal/drivercheck"
	"cadre.dev/agent/internal/parent"
	"cadre.dev/core/group"
	"cadre.dev/exec/logring"
	"cadre.dev/logging"
	"cadre.dev/overlay"
)

// version is set at link time.
var version = "dev"

func main() {
	// A core dump would put every key on a disk (TOK-16); children inherit it.
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args, worker := os.Args[1:], false
	if len(args) > 0 && args[0] == "driver" {
		code := drivercheck.Command(ctx, args[1:], os.Getenv, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	if len(args) > 0 && args[0] == parent.Argument {
		args, worker = args[1:], true
	}
	s, code, done := read(args, os.Getenv, os.Stderr)
	switch {
	case done:
	case worker:
		code = work(ctx, s, os.Getenv)
	default:
		code = keep(ctx, s)
	}
	stop()
	os.Exit(code) //nolint:gocritic // stop ran
}

// settings are the values of flags and variables.
type settings struct {
	agent.Config

	processors int
}

// keep runs the agent as a child of this process, which keeps the state that must outlive a crash.
func keep(ctx context.Context, s settings) int {
	path, err := os.Executable()
	if err != nil {
		s.Log.Error("the path of the program is not found", "error", err)
		return 1
	}
	return parent.Run(ctx, parent.Config{
		Command: append([]string{path, parent.Argument}, os.Args[1:]...), Sessions: agent.Sessions(s.Config), Log: s.Log,
	})
}

// work is the agent itself, beneath a parent.
func work(ctx context.Context, s settings, getenv func(string) string) int {
	link, err := parent.Inherited()
	if err != nil {
		s.Log.Error("agent ended", "error", err)
		return 1
	}
	s.Parent = link
	return run(ctx, s, getenv)
}

// run returns the exit code: 0 stopped by a signal, 1 failed.
func run(ctx context.Context, s settings, getenv func(string) string) int {
	useProcessors(s.processors, getenv)
	if err := agent.Serve(ctx, s.Config); err != nil {
		s.Log.Error("agent ended", "error", err)
		return 1
	}
	return 0
}

// read reads flags and variables. done: there is nothing to run, and code is the exit
// code, 2 for wrong usage.
func read(args []string, getenv func(string) string, stderr io.Writer) (s settings, code int, done bool) {
	var (
		cfg   = &s.Config
		level slog.Level
		show  bool
	)
	flags := flag.NewFlagSet("cadre-agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.TrustFile, "trust-file", "", "measured trust `file` (JSON)")
	flags.StringVar(&cfg.RevisionMark, "revision-mark", "", "`mark` of the compose file, which Cadre writes for CADRE_REVISION_MARK; another one than the measured compose file has is refused")
	flags.StringVar(&cfg.Gateway.Domain, "gateway-domain", getenv("CADRE_GATEWAY_DOMAIN"), "base `domain` of the gateway (env CADRE_GATEWAY_DOMAIN)")
	flags.StringVar(&cfg.Gateway.Address, "gateway-address", getenv("CADRE_GATEWAY_ADDRESS"), "`host:port` to dial instead of the resolved name (env CADRE_GATEWAY_ADDRESS)")
	rendezvous := flags.String("rendezvous", getenv("CADRE_RENDEZVOUS"), "`URLs` of rendezvous servers, separated by commas; empty: the gateway is the only path (env CADRE_RENDEZVOUS)")
	rendezvousCA := flags.String("rendezvous-ca", getenv("CADRE_RENDEZVOUS_CA"), "base64 of the `PEM` that their certificates lead to; empty: the system's (env CADRE_RENDEZVOUS_CA)")
	paths := flags.String("paths", getenv("CADRE_PATHS"), "`kinds` of path that may be used, of direct-tcp,direct-udp,gateway,relay; empty: all (env CADRE_PATHS)")
	flags.StringVar(&cfg.StateDir, "state-dir", "/var/lib/cadre", "`folder` on the preserved disk")
	flags.StringVar(&cfg.RunDir, "run-dir", "/run/cadre", "tmpfs `folder` of this service alone, for the state of the Boot")
	flags.StringVar(&cfg.MeshDir, "mesh-dir", "/run/mesh", "tmpfs `folder` shared with the workloads")
	flags.StringVar(&cfg.ExecDir, "exec-dir", "/run/cadre-exec", "`folder` with one folder for each service that takes commands, shared with that service alone")
	flags.StringVar(&cfg.ExecBinary, "exec-binary", "cadre-exec", "`program` that workloads start with, put into the mesh folder as exec; empty puts none")
	flags.IntVar(&cfg.MeshGID, "mesh-gid", 0, "group `id` that may read secrets in the mesh folder; 0 is root only")
	flags.BoolVar(&cfg.MeshSVID, "mesh-svid", false, "write this slot's certificate and key to tls in the mesh folder, for a proxy: any process that reads them can act as this slot towards every peer")
	flags.StringVar(&cfg.DstackSocket, "dstack-socket", "", "guest agent's unix `socket`; empty is the default search order")
	flags.StringVar(&cfg.Consul, "consul", fmt.Sprintf("127.0.0.1:%d", group.ConsulHTTPPort), "loopback `address` where workloads reach Consul, by way of a coordinator; empty: nowhere")
	flags.StringVar(&cfg.XDS, "xds", fmt.Sprintf("127.0.0.1:%d", group.ConsulXDSPort), "loopback `address` where Envoys get their configuration, by way of a coordinator; empty: no proxies and no routes")
	flags.StringVar(&cfg.Envoy, "envoy", "envoy", "`program` that proxies are")
	flags.StringVar(&cfg.PgBouncer, "pgbouncer", "pgbouncer", "`program` that pools the connections of routes")
	flags.StringVar(&cfg.API, "api", fmt.Sprintf("127.0.0.1:%d", group.AgentAPIPort), "loopback `address` of the HTTP interface for workloads")
	flags.StringVar(&cfg.Listen, "listen", fmt.Sprintf(":%d", group.SessionPort), "TCP `address` for overlay sessions")
	flags.IntVar(&s.processors, "processors", 0, "`number` of processors to use at once; 0: GOMAXPROCS of the environment, or else a quarter of the machine's, at least one")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "least `level` that is logged: DEBUG, INFO, WARN, ERROR")
	flags.BoolVar(&show, "version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return s, 0, true
		}
		return s, 2, true
	}
	cfg.Version = version
	if show {
		_, _ = fmt.Fprintln(stderr, "cadre-agent", cfg.Version)
		return s, 0, true
	}
	if flags.NArg() > 0 {
		_, _ = fmt.Fprintf(stderr, "cadre-agent: unexpected argument %q\n", flags.Arg(0))
		return s, 2, true
	}
	if s.processors < 0 {
		_, _ = fmt.Fprintf(stderr, "cadre-agent: -processors %d: give a positive number, or 0 for a quarter of the machine's\n", s.processors)
		return s, 2, true
	}
	var badRendezvous, badPaths error
	cfg.Rendezvous, badRendezvous = overlay.ParseRendezvous(*rendezvous, *rendezvousCA)
	cfg.Paths, badPaths = overlay.ParsePaths(*paths)
	if err := errors.Join(badRendezvous, badPaths); err != nil {
		_, _ = fmt.Fprintln(stderr, "cadre-agent:", err)
		return s, 2, true
	}
	cfg.OwnLog = &logring.Ring{}
	cfg.Log = logging.New("cadre-agent", level.String(), io.MultiWriter(stderr, cfg.OwnLog))
	return s, 0, false
}

// useProcessors leaves the rest of the machine to the workload.
func useProcessors(n int, getenv func(string) string) {
	switch {
	case n > 0:
		runtime.GOMAXPROCS(n)
	case getenv("GOMAXPROCS") == "":
		runtime.GOMAXPROCS(overlay.Processors(runtime.GOMAXPROCS(0)))
	}
}
