// Command cadre-kafka-adapter answers an agent's calls about the Kafka node of its CVM: the adapter of
// `workload "custom"` for Kafka in KRaft mode.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"cadre.dev/adapters/kafka"
	"cadre.dev/adapters/serve"
	"cadre.dev/core/adapter"
)

// version is set at link time.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-kafka-adapter:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var cfg kafka.Config
	vip := os.Getenv("CADRE_VIP")
	flags := flag.NewFlagSet("cadre-kafka-adapter", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:9900", "loopback `ADDRESS` for the agent, as in the setting http of the workload")
	flags.StringVar(&cfg.Slot, "slot", os.Getenv("CADRE_SLOT"), "`NAME` of this slot (default: $CADRE_SLOT)")
	flags.StringVar(&cfg.Roles, "roles", kafka.RolesBoth, "`ROLES` of the group's nodes: broker,controller or broker or controller")
	flags.IntVar(&cfg.NodeBase, "node-base", 0, "`ID` of the node with ordinal 0; groups of one Kafka cluster are 1000 apart")
	flags.StringVar(&cfg.Broker, "broker", vip+":9092", "`ADDRESS` of the node's own broker")
	flags.StringVar(&cfg.Controller, "controller", vip+":9093", "`ADDRESS` of the node's own controller")
	flags.StringVar(&cfg.Jars, "jars", jars(), "`FOLDER` with Kafka's jars, one of which names its version")
	flags.BoolVar(&cfg.AcceptSingle, "accept-single", false, "let a node stop although partitions with too few replicas refuse writes meanwhile")
	uuid := flags.String("uuid", "", "print Kafka's UUID for the `TEXT`, such as cluster/group, and exit")
	ask := flags.Bool("ask", false, "print the member as the adapter at -listen sees it, and exit")
	showVersion := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *showVersion:
		fmt.Println("cadre-kafka-adapter", version)
		return nil
	case *uuid != "":
		fmt.Println(kafka.UUID(*uuid))
		return nil
	case *ask:
		return printMember(ctx, *listen)
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: every setting is a flag", flags.Arg(0))
	}
	a, err := kafka.New(cfg)
	if err != nil {
		return err
	}
	return serve.Run(ctx, *listen, a)
}

// printMember asks a running adapter, for people: the image has no program for HTTP.
func printMember(ctx context.Context, address string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+adapter.PathMember, nil)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if _, err := io.Copy(os.Stdout, io.LimitReader(a.Body, adapter.MaxBody)); err != nil {
		return err
	}
	if fmt.Println(); a.StatusCode != http.StatusOK {
		return errors.New(a.Status)
	}
	return nil
}

// jars is the image's folder, or that of make tools-kafka, which is next to its kafka-java.
func jars() string {
	if at, err := exec.LookPath("kafka-java"); err == nil {
		if near := filepath.Join(filepath.Dir(at), "lib"); isFolder(near) {
			return near
		}
	}
	return "/usr/share/java"
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
