// Command cadre-local runs a local cloud: a Phala-compatible API, CVMs made of
// host processes, a guest agent simulator, a TLS gateway and a registry of images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"cadre.dev/local/internal/become"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/cvminit"
	"cadre.dev/local/internal/daemon"
	"cadre.dev/local/internal/fabric"
	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/kmsauth"
)

const usage = `usage:
  cadre-local serve --state DIR [flags]                      run a cloud in the foreground; flags that are left
                                                            out are those of its last start
  cadre-local cleanup --state DIR                            remove what a killed daemon left; says what, if anything
  cadre-local cvm-init --spec FILE                           internal: pid 1 of a CVM
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-local:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("a command is missing; see cadre-local help")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	case "serve":
		return serve(flags, args[1:])
	case "cleanup":
		state := flags.String("state", "", "state directory")
		if err := parse(flags, args[1:]); err != nil {
			return err
		}
		if *state == "" {
			return errors.New("--state is required")
		}
		cleaned, err := daemon.Cleanup(*state)
		if cleaned != (daemon.Cleaned{}) {
			fmt.Println(cleaned)
		}
		return err
	case "cvm-init":
		spec := flags.String("spec", "", "boot spec")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return cvminit.Run(*spec)
	default:
		return fmt.Errorf("unknown command %q; see cadre-local help", args[0])
	}
}

func serve(flags *flag.FlagSet, args []string) error {
	var cfg daemon.Config
	var boot, lag, hidden, restart time.Duration
	flags.StringVar(&cfg.StateDir, "state", "", "state directory; one daemon each")
	flags.StringVar(&cfg.Layout, "layout", "", "OCI layout folder whose images a registry serves and CVMs boot")
	flags.StringVar(&cfg.ImageStore, "image-store", "", "folder where images are unpacked, once for all clouds that share it (default: in the state directory)")
	flags.StringVar(&cfg.RegistryListen, "registry", "", "host address of the registry (default: as for the API)")
	imageFile := flags.String("images", "", "JSON file that maps image repositories to host programs, which need no image")
	flags.StringVar(&cfg.APIListen, "api", "", "host address of the API (default: that of the last start, at first a free port of 127.0.0.1)")
	flags.StringVar(&cfg.GatewayListen, "gateway", "", "host address of the gateway (default: as for the API)")
	flags.StringVar(&cfg.Domain, "domain", "", "base domain of gateway names (default: that of the last start, at first gw.cadre.test)")
	platform := flags.String("platform", daemon.Phala, "the API that the cloud speaks: phala, or vmm with an endpoint for each host")
	hosts := flags.String("hosts", daemon.DefaultHosts, "hosts of platform vmm, as NAME or NAME=HOST:PORT")
	kmsAuth := flags.String("kms-auth", "", "base URL of the webhook that the KMS asks before a guest gets its keys; none without")
	version := flags.String("vmm-version", "", "version of dstack-vmm whose habits the hosts have (default: "+cloud.DefaultVMMVersion+")")
	nat := flags.String("nat", "none", "the NAT of new CVMs: none (they reach the fabric only), full-cone, address-restricted, port-restricted or symmetric")
	udp := flags.String("udp", "open", "UDP of new CVMs: open or blocked")
	flags.StringVar(&cfg.Rendezvous, "rendezvous", "", "rendezvous program to run in the fabric; none without")
	flags.DurationVar(&boot, "boot-delay", 3*time.Second, "time a CVM boots before its services start")
	flags.DurationVar(&lag, "accept-lag", 0, "time an accepted operation does not show")
	flags.DurationVar(&hidden, "create-hidden", 300*time.Millisecond, "time a new CVM is not found")
	flags.DurationVar(&restart, "auto-restart", 0, "boot a CVM again this long after an unplanned death; 0 never (default on platform vmm: 20s, which is how often a host looks)")
	flags.DurationVar(&cfg.StopGrace, "stop-grace", 20*time.Second, "time CVMs have to end in order when the daemon stops")
	debug := flags.Bool("debug", false, "log more")
	if err := parse(flags, args); err != nil {
		return err
	}
	if cfg.StateDir == "" {
		return errors.New("--state is required; see cadre-local help")
	}
	if err := recall(flags, cfg.StateDir); err != nil {
		return err
	}
	for _, folder := range []*string{&cfg.Layout, &cfg.ImageStore, imageFile} {
		if *folder == "" {
			continue
		}
		path, err := filepath.Abs(*folder)
		if err != nil {
			return err
		}
		*folder = path
	}
	if info, err := os.Stat(cfg.Layout); err == nil && !info.IsDir() {
		return fmt.Errorf("--layout %s is a file: name the folder of an OCI layout, in which index.json is", cfg.Layout)
	}
	for name, d := range map[string]time.Duration{"boot-delay": boot, "accept-lag": lag, "create-hidden": hidden, "auto-restart": restart, "stop-grace": cfg.StopGrace} {
		if d < 0 {
			return fmt.Errorf("--%s %s is less than nothing", name, d)
		}
	}
	if err := kmsauth.CheckURL(*kmsAuth); err != nil {
		return fmt.Errorf("--kms-auth: %w", err)
	}
	if err := cloud.CheckVMMVersion(*version); err != nil {
		return fmt.Errorf("--vmm-version: %w", err)
	}
	cfg.Platform = *platform
	switch cfg.Platform {
	case daemon.Phala:
	case daemon.VMM:
		var err error
		if cfg.Hosts, err = daemon.ParseHosts(*hosts); err != nil {
			return fmt.Errorf("--hosts: %w", err)
		}
		if !given(flags, "auto-restart") {
			restart = vmmRestart
		}
	default:
		return fmt.Errorf("--platform: %q is not phala or vmm", *platform)
	}
	if *imageFile == "" && cfg.Layout == "" {
		return errors.New("the programs of CVMs are unknown: give --layout, a folder of images, or --images, a map to programs of this machine; see cadre-local help")
	}
	if *udp != "open" && *udp != "blocked" {
		return fmt.Errorf("--udp: %q is not open or blocked", *udp)
	}
	if cfg.Rendezvous != "" {
		path, err := exec.LookPath(cfg.Rendezvous)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return fmt.Errorf("--rendezvous: %w", err)
		}
		cfg.Rendezvous = path
	}
	cfg.Network = fabric.Network{NAT: fabric.NAT(*nat), BlockUDP: *udp == "blocked"}
	if err := cfg.Network.Validate(); err != nil {
		return fmt.Errorf("--nat: %w", err)
	}
	var err error
	if *imageFile != "" {
		if cfg.Images, err = images.Load(*imageFile); err != nil {
			return err
		}
	}
	cfg.Flags = kept(flags)
	if cfg.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	cfg.Become = filepath.Join(filepath.Dir(cfg.Program), become.Program)
	level := slog.LevelInfo
	if *debug {
		level = slog.LevelDebug
	}
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	cfg.Settings = cloud.Settings{
		BootDelay: cloud.Duration(boot), AcceptLag: cloud.Duration(lag), CreateHidden: cloud.Duration(hidden), AutoRestart: cloud.Duration(restart),
		KMSAuth: *kmsAuth, VMMVersion: *version,
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return daemon.Serve(ctx, cfg, nil)
}

// vmmRestart is how often a real host looks for dead VMs.
const vmmRestart = 20 * time.Second

func given(flags *flag.FlagSet, name string) (found bool) {
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// parse takes flags alone: at a word without a flag the rest would be passed over.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag of %s; flags are written --name value, or --name alone for switches", flags.Arg(0), flags.Name())
	}
	return nil
}

// unkept flags are of one start; addresses and domain are kept by the daemon itself.
var unkept = []string{"state", "api", "gateway", "registry", "domain", "debug"}

// recall sets the flags that were not given as they were at the last start.
func recall(flags *flag.FlagSet, dir string) error {
	last, err := daemon.LastFlags(dir)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range last {
		if given[name] || flags.Lookup(name) == nil {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("--%s of the last start: %w", name, err)
		}
	}
	return nil
}

// kept are the flags to recall at the next start.
func kept(flags *flag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.Visit(func(f *flag.Flag) {
		if !slices.Contains(unkept, f.Name) {
			out[f.Name] = f.Value.String()
		}
	})
	return out
}
