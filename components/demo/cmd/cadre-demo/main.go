// Command cadre-demo runs the demo, the rollout benchmark, and a cluster to look
// around in, all on the local cloud.
package main

import (
	"context"
	"errors"
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

const usage = `usage: cadre-demo run | up | down | bench-rollout

  run            deploy, load, roll, measure, kill the leader; writes .out/demo.json
  up             deploy and leave the cluster running
  down           remove it and every trace of it
  bench-rollout  measure the engine's overhead; writes .out/bench-rollout.json
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New(usage)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root: run this as root or with sudo")
	}
	out := filepath.Join(root, ".out")
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
	switch args[0] {
	case "run":
		return demo(ctx, r, n, out)
	case "up":
		return up(ctx, r, n, os.Stdout)
	case "down":
		return r.Down(ctx)
	case "bench-rollout":
		return errors.New("bench-rollout: not built yet")
	default:
		return errors.New(usage)
	}
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
	return rig.Write(filepath.Join(out, "demo.json"), report)
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
