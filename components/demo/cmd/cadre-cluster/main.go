// Command cadre-cluster brings a folder of clusters/ up on a local cloud of its own and
// takes it down again: `make cluster` and `make cluster-down`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/tofu"
)

const usage = `usage: cadre-cluster up NAME | down NAME

  up NAME    start a local cloud from the images of .out/images and apply clusters/NAME on
             it; with one that is there, bring it back and apply again
  down NAME  remove it and every trace of it`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 || args[0] != "up" && args[0] != "down" {
		return errors.New(usage)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if args[1] == "" {
		return fmt.Errorf("name a cluster, NAME=starter: %s", strings.Join(names(root), ", "))
	}
	s, err := tofu.New(root, args[1], filepath.Join(root, ".out", "clusters", args[1]), os.Stdout)
	if err != nil {
		return err
	}
	if args[0] == "down" {
		did, err := rig.At(root, s.State, nil).Remove(ctx)
		if err == nil {
			fmt.Println(did)
		}
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root: run this as root or with sudo")
	}
	s.Log = io.Discard
	if err := s.Up(ctx, filepath.Join(root, ".out", "images")); err != nil {
		return err
	}
	s.Log = os.Stdout
	apply := []string{"apply", "-auto-approve", "-compact-warnings"}
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		apply = append(apply, "-no-color")
	}
	if err := s.Tofu(ctx, apply...); err != nil {
		return fmt.Errorf("clusters/%s is not applied; apply again to continue, or make cluster-down NAME=%s", s.Name, s.Name)
	}
	s.Log = io.Discard
	return next(ctx, s)
}

// names of the clusters that Terraform can make.
func names(root string) []string {
	found, _ := filepath.Glob(filepath.Join(root, "clusters", "*", "main.tf"))
	for i, path := range found {
		found[i] = filepath.Base(filepath.Dir(path))
	}
	return found
}

// next prints the running programs and the next commands.
func next(ctx context.Context, s *tofu.Stand) error {
	groups, err := s.Cadre(ctx, "group", "list")
	if err != nil {
		return err
	}
	outputs, err := s.Outputs(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\nnext\n  . %s\n  cd clusters/%s\n  tofu apply -var release=2\n  cadre group list\n", groups, filepath.Join(".out", "clusters", s.Name, "env"), s.Name)
	for _, output := range []string{"try", "urls"} {
		for _, line := range commented(outputs[output]) {
			fmt.Println("  " + line)
		}
	}
	fmt.Printf("  make cluster-down NAME=%s   # in the checkout's folder\n", s.Name)
	return nil
}

// commented gives the lines of an output with commands: each with its name behind it.
func commented(output json.RawMessage) []string {
	var named map[string]string
	if json.Unmarshal(output, &named) != nil {
		return nil // a cluster without this output
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		lines = append(lines, named[name]+"   # "+name)
	}
	return lines
}
