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

const usage = `cadre-demo run | up | down | bench-rollout | docs-performance

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
	if len(args) != 1 {
		return errors.New("usage: " + usage)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	out := filepath.Join(root, ".out")
	if args[0] == "docs-performance" {
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
	switch args[0] {
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
