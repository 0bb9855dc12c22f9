// Command cadre-demo runs the demo, the rollout benchmark, and a cluster to look
// around in, all on the local cloud.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"

	"cadre.dev/demo/internal/rig"
)

const usage = `cadre-demo run | up | down | bench-rollout | docs-performance  [--nat KIND] [--udp open|blocked]

  --nat KIND     what each CVM sits behind: port-restricted (default), full-cone,
                 address-restricted, symmetric; none: the gateway is the only path
  --udp blocked  no UDP passes the NATs

  run            deploy, load, roll, measure, kill the leader; writes .out/demo.json
  up             deploy and leave the cluster running
  down           remove it and every trace of it
  bench-rollout  measure the engine's overhead; writes .out/bench-rollout.json
  docs-performance  write docs/performance.md from the last results`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb, network, err := parse(args)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	out := filepath.Join(root, ".out")
	if verb == "docs-performance" {
		return rig.Document(out, filepath.Join(root, "docs/performance.md"))
	}
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root: run this as root or with sudo")
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(out, "demo.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	r, err := rig.New(root, filepath.Join(out, "demo"), 3*time.Second, log)
	if err != nil {
		return err
	}
	n := rig.NewNarrator(os.Stdout, term.IsTerminal(int(os.Stdout.Fd())), time.Now())
	r.Net = network
	switch verb {
	case "run":
		return demo(ctx, r, n, out)
	case "up":
		return up(ctx, r, n, os.Stdout)
	case "down":
		return r.Down(ctx)
	case "bench-rollout":
		return bench(ctx, root, out, log, n)
	default:
		return errors.New("usage: " + usage)
	}
}

// parse reads the verb and the flags behind it.
func parse(args []string) (verb string, network rig.Net, err error) {
	if len(args) == 0 {
		return "", network, errors.New("usage: " + usage)
	}
	flags := flag.NewFlagSet("cadre-demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	nat := flags.String("nat", rig.DefaultNet.NAT, "")
	udp := flags.String("udp", "open", "")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
		return "", network, errors.Join(err, errors.New("usage: "+usage))
	}
	switch *nat {
	case "none":
	case "full-cone", "address-restricted", "port-restricted", "symmetric":
		network.NAT = *nat
	default:
		return "", network, fmt.Errorf("--nat %q: want none, full-cone, address-restricted, port-restricted or symmetric", *nat)
	}
	switch *udp {
	case "open":
	case "blocked":
		network.BlockUDP = true
		if network.NAT == "" {
			return "", network, errors.New("--udp blocked: without a NAT no UDP passes anyway")
		}
	default:
		return "", network, fmt.Errorf("--udp %q: want open or blocked", *udp)
	}
	return args[0], network, nil
}

// demo removes what it made, also when it fails; the logs stay in .out/demo.log.
func demo(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) (err error) {
	if err := r.Down(ctx); err != nil {
		return err
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if os.Getenv("CADRE_DEMO_KEEP") == "" {
			err = errors.Join(err, r.Down(cleanup))
		}
	}()
	report, err := r.Demo(ctx, n)
	if err != nil {
		return err
	}
	n.Summary(report)
	return errors.Join(
		rig.Write(filepath.Join(out, "demo.json"), report),
		rig.Write(filepath.Join(out, "bench-demo.json"), report.Figures()),
	)
}

func bench(ctx context.Context, root, out string, log io.Writer, n *rig.Narrator) (err error) {
	r := rig.NewLight(root, filepath.Join(out, "bench"), rig.BenchBootDelay, log)
	if err := r.Down(ctx); err != nil {
		return err
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, r.Down(cleanup))
	}()
	result, err := r.BenchRollout(ctx, n)
	if err != nil {
		return err
	}
	result.Print(os.Stdout)
	return rig.Write(filepath.Join(out, "bench-rollout.json"), result)
}

func up(ctx context.Context, r *rig.Rig, n *rig.Narrator, out io.Writer) error {
	if err := r.Down(ctx); err != nil {
		return err
	}
	if err := r.Deploy(ctx, n); err != nil {
		return err
	}
	fmt.Fprintf(out, `
The cluster runs. Look around:

  export CADRE_CONTEXT=%s
  bin/cadre group list
  bin/cadre instance list postgres
  bin/cadre rollout watch postgres        # in another terminal, then:
  bin/cadre instance restart postgres-2

make down removes it.
`, r.ContextFile())
	return nil
}
