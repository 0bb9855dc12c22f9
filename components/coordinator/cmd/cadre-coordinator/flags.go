package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"cadre.dev/overlay"
)

// options are the command line and the environment. The environment is not measured, so it may only
// locate things. The platform key comes from the environment, because it is encrypted to this app.
type options struct {
	cluster, trustFile, slot      string
	revisionMark                  string
	replicas                      int
	gatewayDomain, gatewayAddress string
	platformAPI, platformKeyFile  string
	platformKey                   string
	platformSettle                time.Duration
	shutdownTimeout               time.Duration
	rendezvous                    []overlay.Rendezvous
	paths                         []overlay.PathKind
	stateDir, runDir              string
	consulBinary, dstackSocket    string
	datacenter, logLevel          string
	tracesEndpoint                string
	failpointFile                 string
	restoreClusterID              string
}

func parse(args []string, env func(string) string) (options, error) {
	var o options
	set := flag.NewFlagSet("cadre-coordinator", flag.ContinueOnError)
	set.StringVar(&o.cluster, "cluster", "", "cluster name (required)")
	set.StringVar(&o.revisionMark, "revision-mark", "", "mark of the compose file, which Cadre writes for CADRE_REVISION_MARK; another one than the measured compose file has is refused")
	set.StringVar(&o.trustFile, "trust-file", "", "what this cluster trusts, JSON; part of the measured compose file (required)")
	set.StringVar(&o.slot, "slot", env("CADRE_SLOT"), "coordinator-<n>; environment CADRE_SLOT")
	set.IntVar(&o.replicas, "replicas", 3, "how many coordinators the cluster has: 1, 3 or 5")
	set.StringVar(&o.gatewayDomain, "gateway-domain", env("CADRE_GATEWAY_DOMAIN"), "base domain of the TLS pass-through gateway; empty: the domain that the platform reports for the coordinators' CVMs; environment CADRE_GATEWAY_DOMAIN")
	set.StringVar(&o.gatewayAddress, "gateway-address", env("CADRE_GATEWAY_ADDRESS"), "host:port of the gateway; empty: resolve its names; environment CADRE_GATEWAY_ADDRESS")
	rendezvous := set.String("rendezvous", env("CADRE_RENDEZVOUS"), "URLs of rendezvous servers, separated by commas; empty: the gateway is the only path; environment CADRE_RENDEZVOUS")
	rendezvousCA := set.String("rendezvous-ca", env("CADRE_RENDEZVOUS_CA"), "base64 of the PEM that their certificates lead to; empty: the system's; environment CADRE_RENDEZVOUS_CA")
	paths := set.String("paths", env("CADRE_PATHS"), "kinds of path that may be used, of direct-tcp,direct-udp,gateway,relay; empty: all; environment CADRE_PATHS")
	set.StringVar(&o.platformAPI, "platform-api", env("CADRE_PLATFORM_API"), "the platform: base URL of the API of Phala Cloud, which an empty text is too, or vmm:NAME[@REGION]=URL,... for hosts with dstack-vmm; environment CADRE_PLATFORM_API")
	set.StringVar(&o.platformKeyFile, "platform-key-file", "", "file with the API key or token of the platform; else environment CADRE_PLATFORM_API_KEY")
	set.DurationVar(&o.platformSettle, "platform-settle", 0, "how long after a call to the platform its effect may still be hidden; 0: as long as is known of the platform")
	set.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 0, "how long a guest may take to shut down when its OS image or size changes, 10s to 20m, before the platform stops it hard; 0: the platform waits")
	set.StringVar(&o.stateDir, "state-dir", "/var/lib/cadre", "directory on the encrypted disk")
	set.StringVar(&o.runDir, "run-dir", "/run/cadre", "directory in memory, for configuration that holds keys")
	set.StringVar(&o.consulBinary, "consul-binary", "consul", "Consul server binary")
	set.StringVar(&o.dstackSocket, "dstack-socket", "", "guest agent socket; empty: the usual places")
	set.StringVar(&o.datacenter, "datacenter", "dc1", "Consul datacenter")
	set.StringVar(&o.tracesEndpoint, "traces-endpoint", "", "URL of an OTLP/HTTP collector for one trace of each rollout, such as https://collector.example:4318/v1/traces; empty: no traces are sent")
	set.StringVar(&o.logLevel, "log-level", "info", "trace, debug, info, warn or error")
	set.StringVar(&o.restoreClusterID, "restore-cluster-id", env("CADRE_RESTORE_CLUSTER_ID"), "cluster ID under which coordinators with empty disks wait for a backup, instead of creating a new cluster; environment CADRE_RESTORE_CLUSTER_ID")
	set.StringVar(&o.failpointFile, "failpoint-file", "", "")
	set.SetOutput(os.Stderr)
	set.Usage = func() { usage(set, os.Stderr) }
	if err := set.Parse(args); err != nil {
		return o, err
	}
	o.platformKey = env("CADRE_PLATFORM_API_KEY")
	var (
		errs []error
		err  error
	)
	if o.rendezvous, err = overlay.ParseRendezvous(*rendezvous, *rendezvousCA); err != nil {
		errs = append(errs, err)
	}
	if o.paths, err = overlay.ParsePaths(*paths); err != nil {
		errs = append(errs, err)
	}
	if set.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", set.Arg(0)))
	}
	if o.cluster == "" {
		errs = append(errs, errors.New("--cluster is required"))
	}
	if o.platformSettle < 0 {
		errs = append(errs, fmt.Errorf("--platform-settle is %s: give a time such as 90s, or leave it out", o.platformSettle))
	}
	if o.trustFile == "" {
		errs = append(errs, errors.New("--trust-file is required"))
	}
	return o, errors.Join(errs...)
}

// usage leaves out flags without a description, because they serve tests.
func usage(set *flag.FlagSet, w io.Writer) {
	_, _ = fmt.Fprintln(w, "Usage of cadre-coordinator:")
	set.VisitAll(func(f *flag.Flag) {
		if f.Usage == "" {
			return
		}
		_, _ = fmt.Fprintf(w, "  --%s\n    \t%s", f.Name, f.Usage)
		if f.DefValue != "" {
			_, _ = fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		_, _ = fmt.Fprintln(w)
	})
}

func (o options) apiKey() (string, error) {
	if o.platformKeyFile == "" {
		return o.platformKey, nil
	}
	raw, err := os.ReadFile(o.platformKeyFile)
	if err != nil {
		return "", fmt.Errorf("read platform key: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
