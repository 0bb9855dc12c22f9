// Command cadre-agent is the sidecar of a workload CVM: it gets the Boot
// admitted, connects it to its Peers, and carries out what the leader orders.
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
	"cadre.dev/core/group"
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
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stderr))
}

// run returns the exit code: 0 stopped by a signal, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) int {
	var (
		cfg   agent.Config
		level slog.Level
		show  bool
	)
	flags := flag.NewFlagSet("cadre-agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.TrustFile, "trust-file", "", "measured trust `file` (JSON)")
	flags.StringVar(&cfg.Gateway.Domain, "gateway-domain", getenv("CADRE_GATEWAY_DOMAIN"), "base `domain` of the gateway (env CADRE_GATEWAY_DOMAIN)")
	flags.StringVar(&cfg.Gateway.Address, "gateway-address", getenv("CADRE_GATEWAY_ADDRESS"), "`host:port` to dial instead of the resolved name (env CADRE_GATEWAY_ADDRESS)")
	rendezvous := flags.String("rendezvous", getenv("CADRE_RENDEZVOUS"), "`URLs` of rendezvous servers, separated by commas; empty: the gateway is the only path (env CADRE_RENDEZVOUS)")
	rendezvousCA := flags.String("rendezvous-ca", getenv("CADRE_RENDEZVOUS_CA"), "base64 of the `PEM` that their certificates lead to; empty: the system's (env CADRE_RENDEZVOUS_CA)")
	paths := flags.String("paths", getenv("CADRE_PATHS"), "`kinds` of path that may be used, of direct-tcp,direct-udp,gateway,relay; empty: all (env CADRE_PATHS)")
	flags.StringVar(&cfg.StateDir, "state-dir", "/var/lib/cadre", "`folder` on the preserved disk")
	flags.StringVar(&cfg.RunDir, "run-dir", "/run/cadre", "tmpfs `folder` of this service alone, for the Consul agent's keys")
	flags.StringVar(&cfg.MeshDir, "mesh-dir", "/run/mesh", "tmpfs `folder` shared with the workloads")
	flags.StringVar(&cfg.ExecDir, "exec-dir", "/run/cadre-exec", "`folder` with one folder for each service that takes commands, shared with that service alone")
	flags.StringVar(&cfg.ExecBinary, "exec-binary", "cadre-exec", "`program` that workloads start with, put into the mesh folder as exec; empty puts none")
	flags.IntVar(&cfg.MeshGID, "mesh-gid", 0, "group `id` that may read secrets in the mesh folder; 0 is root only")
	flags.BoolVar(&cfg.MeshSVID, "mesh-svid", false, "write this slot's certificate and key to tls in the mesh folder, for a proxy: who reads them is this slot to every peer")
	flags.StringVar(&cfg.DstackSocket, "dstack-socket", "", "guest agent's unix `socket`; empty is the default search order")
	flags.StringVar(&cfg.ConsulBinary, "consul-binary", "consul", "Consul `binary`; empty runs no Consul agent")
	flags.StringVar(&cfg.API, "api", fmt.Sprintf("127.0.0.1:%d", group.AgentAPIPort), "loopback `address` of the HTTP interface for workloads")
	flags.StringVar(&cfg.Listen, "listen", fmt.Sprintf(":%d", group.SessionPort), "TCP `address` for overlay sessions")
	processors := flags.Int("processors", 0, "`number` of processors to use at once; 0: GOMAXPROCS of the environment, or else a quarter of the machine's, at least one")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "least `level` that is logged: DEBUG, INFO, WARN, ERROR")
	flags.BoolVar(&show, "version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	cfg.Version = version
	if show {
		_, _ = fmt.Fprintln(stderr, "cadre-agent", cfg.Version)
		return 0
	}
	if flags.NArg() > 0 {
		_, _ = fmt.Fprintf(stderr, "cadre-agent: unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	if *processors < 0 {
		_, _ = fmt.Fprintf(stderr, "cadre-agent: -processors %d: give a positive number, or 0 for a quarter of the machine's\n", *processors)
		return 2
	}
	var badRendezvous, badPaths error
	cfg.Rendezvous, badRendezvous = overlay.ParseRendezvous(*rendezvous, *rendezvousCA)
	cfg.Paths, badPaths = overlay.ParsePaths(*paths)
	if err := errors.Join(badRendezvous, badPaths); err != nil {
		_, _ = fmt.Fprintln(stderr, "cadre-agent:", err)
		return 2
	}
	cfg.Log = logging.New("cadre-agent", level.String(), stderr)
	cfg.ChildOutput = stderr
	useProcessors(*processors, getenv)
	if err := agent.Serve(ctx, cfg); err != nil {
		cfg.Log.Error("agent ended", "error", err)
		return 1
	}
	return 0
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
