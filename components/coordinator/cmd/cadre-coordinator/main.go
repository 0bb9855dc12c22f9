// Command cadre-coordinator is the one service of a coordinator CVM.
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
	"syscall"
	"time"

	"cadre.dev/attest"
	"cadre.dev/coordinator"
	"cadre.dev/exec/logring"
	"cadre.dev/logging"
	"cadre.dev/overlay"
	"cadre.dev/platform"
	"cadre.dev/platform/drivers"
)

// version is set at link time.
var version = "dev"

func main() {
	// A core dump would put every key on a disk (TOK-16); children inherit it.
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(2)
		}
		fmt.Fprintln(os.Stderr, "cadre-coordinator:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, env func(string) string) error {
	o, err := parse(args, env)
	if err != nil {
		return err
	}
	own := &logring.Ring{}
	log := logging.New("cadre-coordinator", o.logLevel, io.MultiWriter(os.Stderr, own))
	trust, trustFile, err := attest.LoadTrust(o.trustFile)
	if err != nil {
		return err
	}
	key, err := o.apiKey()
	if err != nil {
		return err
	}
	guest := attest.NewGuestClient(o.dstackSocket)
	cloud, err := drivers.Open(drivers.Options{API: o.platformAPI, Key: key, Log: log, KeyService: guest.KeyService, Settle: o.platformSettle, ShutdownTimeout: o.shutdownTimeout})
	if err != nil {
		return err
	}
	if o.gatewayDomain == "" {
		info, err := guest.Info(ctx)
		if err != nil {
			return fmt.Errorf("gateway domain is not set; ask the guest for the app: %w", err)
		}
		if o.gatewayDomain, err = gatewayDomain(ctx, info.AppID, cloud.List, log, gatewayPoll); err != nil {
			return err
		}
	}
	if trust.AllowSimulated {
		log.Warn("simulated attestation is allowed by the measured trust file")
	}
	c, err := coordinator.New(coordinator.Config{
		Cluster: o.cluster, Slot: o.slot, Replicas: o.replicas, PlatformDriver: drivers.Of(o.platformAPI), Trust: trust, TrustFile: trustFile, RevisionMark: o.revisionMark,
		Gateway:    overlay.Gateway{Domain: o.gatewayDomain, Address: o.gatewayAddress},
		Rendezvous: o.rendezvous, Paths: o.paths, RestoreClusterID: o.restoreClusterID,
		StateDir: o.stateDir, RunDir: o.runDir, ConsulBinary: o.consulBinary, Datacenter: o.datacenter, Version: version,
		TracesEndpoint: o.tracesEndpoint,
	}, coordinator.Deps{
		Guest: guest, Platform: cloud, Log: log, OwnLog: own,
		Failpoint: failpoint(o.failpointFile, log),
	})
	if err != nil {
		return err
	}
	slog.SetDefault(log)
	return c.Run(ctx)
}

// gatewayPoll is the pause between requests for the gateway domain.
const gatewayPoll = 5 * time.Second

// gatewayDomain returns the gateway domain of the own app's CVMs, as the platform reports it. The
// domain only locates, and proves nothing. gatewayDomain retries until the platform reports one.
func gatewayDomain(ctx context.Context, appID string, list func(context.Context, string) ([]platform.Instance, error), log *slog.Logger, poll time.Duration) (string, error) {
	for {
		cvms, err := list(ctx, appID)
		if err == nil {
			var domain string
			if domain, err = platform.GatewayDomain(cvms); err == nil {
				log.Info("gateway domain reported by the platform", "domain", domain)
				return domain, nil
			}
		}
		log.Warn("gateway domain is unknown: the coordinator retries; or set --gateway-domain or CADRE_GATEWAY_DOMAIN", "error", err)
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}
