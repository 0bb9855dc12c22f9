// Command cadre-nats-adapter answers an agent's calls about the nats-server of its CVM: the adapter
// of `workload "custom"` for NATS JetStream.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"cadre.dev/adapters/nats"
	"cadre.dev/adapters/serve"
)

// version is set at link time.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-nats-adapter:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var cfg nats.Config
	flags := flag.NewFlagSet("cadre-nats-adapter", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:9900", "loopback `ADDRESS` for the agent, as in the setting http of the workload")
	flags.StringVar(&cfg.Slot, "slot", os.Getenv("CADRE_SLOT"), "`NAME` of this slot (default: $CADRE_SLOT)")
	flags.StringVar(&cfg.Monitor, "monitor", "http://127.0.0.1:8222", "`URL` of the server's monitoring port")
	flags.StringVar(&cfg.Server, "server", "nats://127.0.0.1:4222", "`URL` of the server's port for clients")
	flags.StringVar(&cfg.User, "user", "sys", "`USER` of the system account")
	flags.StringVar(&cfg.PasswordFile, "password-file", "", "`FILE` with that user's password, read at each use")
	flags.Func("drain", "`ACCOUNT:USER:FILE`: a user of an account, whose streams a drain moves; repeatable", func(text string) error {
		login, err := nats.ParseLogin(text)
		cfg.Accounts = append(cfg.Accounts, login)
		return err
	})
	flags.StringVar(&cfg.CAFile, "ca-file", "", "`FILE` with the authority of the server's certificate")
	flags.StringVar(&cfg.CertFile, "cert-file", "", "`FILE` with the adapter's own certificate, for servers that verify clients")
	flags.StringVar(&cfg.KeyFile, "key-file", "", "`FILE` with the key of that certificate")
	flags.Uint64Var(&cfg.MaxLag, "max-lag", 1000, "`ENTRIES` that a replica may be behind and still count as current")
	showVersion := flags.Bool("version", false, "print the version and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if *showVersion {
		fmt.Println("cadre-nats-adapter", version)
		return nil
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: every setting is a flag", flags.Arg(0))
	}
	a, err := nats.New(cfg)
	if err != nil {
		return err
	}
	return serve.Run(ctx, *listen, a)
}
