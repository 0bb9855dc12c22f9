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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/figures"
)

const usage = `cadre-demo run | up | down | drill-power | drill-restore | drill-backup | drill-backup-old | drill-tcb | drill-coordinators | drill-upgrade | bench-rollout | bench-platforms | bench-survival | bench-service  [--nat KIND] [--udp open|blocked] [--platform phala|vmm] [--programs]

  --nat KIND     what each CVM sits behind: port-restricted (default), full-cone,
                 address-restricted, symmetric; none: the gateway is the only path
  --udp blocked  no UDP passes the NATs
  --platform vmm the local cloud is two hosts with dstack-vmm, in place of Phala Cloud
  --programs     CVMs run this checkout's programs in place of the images of .out/images:
                 for development, nothing is built into images or unpacked

  run            deploy, load, roll, measure, kill the leader, destroy another member's CVM
                 and watch both come back; writes .out/demo.json
  up             deploy and leave the cluster running; bring back one that is there
  down           remove it and every trace of it, and what an interrupted drill or
                 benchmark left, whoever started it
  drill-power    deploy, cut the power of everything under load, start again, look for
                 every acknowledged write; writes .out/drill-power.json
  drill-restore  deploy a small cluster, back its records up, roll, restore the backup,
                 go on; writes .out/drill-restore.json
  drill-backup   deploy, back the records up, delete all coordinators under load, restore,
                 roll, look for every acknowledged write; writes .out/drill-backup.json
  drill-backup-old
                 the same with a small cluster and a backup from before a scale-out
  drill-tcb      deploy a small cluster, publish a new evaluation in the middle of a rollout,
                 update the host in time; then start a member on an old host, after the
                 grace; writes .out/drill-tcb.json
  drill-coordinators
                 deploy a small cluster, cut the power of two of three coordinators, wait
                 until the third one has started them; writes .out/drill-coordinators.json
  drill-upgrade  deploy, upgrade all coordinators under load and kill the command once, try a
                 version that does not start and go back; writes .out/drill-upgrade.json
  bench-rollout  measure the engine's overhead; writes .out/bench-rollout.json
  bench-platforms
                 roll the database under load on a local cloud of each platform and compare
                 the two; writes .out/bench-platforms.json
  bench-survival deploy, take agents, coordinators and power away under load, and measure
                 what that costs the writes; writes .out/bench-survival.json. With
                 --short one round, and no long absence of the coordinators
  bench-service  deploy the database with its routes, hand its leadership over a hundred
                 times under load, and measure what routes and a pooler cost; writes
                 .out/bench-service.json. With --handovers N so many
  bench-heal     deploy a database, and etcd after it, break their members under load in every
                 way, and measure how they come back by themselves; writes .out/bench-heal.json`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cadre-demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	out := filepath.Join(root, ".out")
	if o.verb == "down" {
		return down(ctx, root, out, os.Stdout)
	}
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root: run this as root or with sudo")
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	n := rig.NewNarrator(os.Stdout, term.IsTerminal(int(os.Stdout.Fd())), time.Now())
	log, err := os.Create(filepath.Join(out, logName(o.verb)))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	switch o.verb {
	case "bench-rollout":
		r := rig.New(root, filepath.Join(out, "bench"), rig.BenchBootDelay, log)
		r.Programs, r.Platform = o.programs, o.platform
		return bench(ctx, r, n, out)
	case "drill-restore", "drill-backup-old", "drill-tcb", "drill-coordinators":
		r := rig.New(root, filepath.Join(out, o.verb), time.Second, log)
		r.Programs, r.Platform = o.programs, o.platform
		switch o.verb {
		case "drill-tcb":
			return drillTCB(ctx, r, n, out)
		case "drill-backup-old":
			return drillBackupOld(ctx, r, n, out)
		case "drill-coordinators":
			return drillCoordinators(ctx, r, n, out)
		}
		return drillRestore(ctx, r, n, out)
	}
	if o.verb == "bench-platforms" {
		return platforms(ctx, n, out, func(platform string) *rig.Rig {
			r := rig.New(root, filepath.Join(out, "bench-platforms-"+platform), 3*time.Second, log)
			r.Net, r.Programs, r.Platform = o.network, o.programs, platform
			return r
		})
	}
	r := rig.New(root, filepath.Join(out, stateName(o.verb)), 3*time.Second, log)
	r.Net, r.Programs, r.Platform = o.network, o.programs, o.platform
	switch o.verb {
	case "run":
		return demo(ctx, r, n, out)
	case "up":
		return up(ctx, r, n, o.networkGiven, os.Stdout)
	case "drill-power":
		return drillPower(ctx, r, n, out)
	case "drill-upgrade":
		return drillUpgrade(ctx, r, n, out)
	case "drill-backup":
		return drillBackup(ctx, r, n, out)
	case "bench-survival":
		return survival(ctx, r, n, out, o.short)
	case "bench-service":
		r.BootDelay = 0 // it is in no figure
		return service(ctx, r, n, out, o.handovers)
	case "bench-heal":
		return heal(ctx, r, n, out)
	default:
		return errors.New("usage: " + usage)
	}
}

// states are the folders below .out that clusters of this program are in.
var states = []string{"demo", "drill-power", "drill-restore", "drill-backup", "drill-backup-old", "drill-tcb", "drill-coordinators", "drill-upgrade", "bench", "bench-platforms", "bench-platforms-phala", "bench-platforms-vmm", "bench-survival", "bench-service", "bench-heal"}

// stateName is the folder of a verb's cluster: a drill leaves the cluster of make up alone.
func stateName(verb string) string {
	if slices.Contains(states, verb) {
		return verb
	}
	return "demo"
}

func logName(verb string) string { return stateName(verb) + ".log" }

// options are a command line.
type options struct {
	verb    string
	network rig.Net
	// networkGiven says that the network was named, not left out.
	networkGiven bool
	// platform is the API of the local cloud.
	platform string
	// programs of the checkout run in place of images.
	programs bool
	// short leaves out the slow parts.
	short bool
	// handovers of bench-service.
	handovers int
}

// parse reads the verb and the flags behind it.
func parse(args []string) (o options, err error) {
	if len(args) == 0 {
		return o, errors.New("usage: " + usage)
	}
	flags := flag.NewFlagSet("cadre-demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	nat := flags.String("nat", rig.DefaultNet.NAT, "")
	udp := flags.String("udp", "open", "")
	flags.StringVar(&o.platform, "platform", group.PlatformPhala, "")
	flags.BoolVar(&o.short, "short", false, "")
	flags.IntVar(&o.handovers, "handovers", rig.ServiceHandovers, "")
	flags.BoolVar(&o.programs, "programs", false, "")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
		return o, errors.Join(err, errors.New("usage: "+usage))
	}
	if !slices.Contains(group.Platforms(), o.platform) {
		return o, fmt.Errorf("--platform %q: want %s", o.platform, strings.Join(group.Platforms(), " or "))
	}
	switch *nat {
	case "none":
	case "full-cone", "address-restricted", "port-restricted", "symmetric":
		o.network.NAT = *nat
	default:
		return o, fmt.Errorf("--nat %q: want none, full-cone, address-restricted, port-restricted or symmetric", *nat)
	}
	switch *udp {
	case "open":
	case "blocked":
		o.network.BlockUDP = true
		if o.network.NAT == "" {
			return o, errors.New("--udp blocked: without a NAT no UDP passes anyway")
		}
	default:
		return o, fmt.Errorf("--udp %q: want open or blocked", *udp)
	}
	handoversGiven := false
	flags.Visit(func(f *flag.Flag) {
		o.networkGiven = o.networkGiven || f.Name == "nat" || f.Name == "udp"
		handoversGiven = handoversGiven || f.Name == "handovers"
	})
	o.verb = args[0]
	switch {
	case handoversGiven && o.verb != "bench-service":
		return o, fmt.Errorf("--handovers: %s makes none to order, bench-service does", o.verb)
	case o.handovers < 1:
		return o, fmt.Errorf("--handovers %d: give 1 or more", o.handovers)
	}
	if o.short && o.verb != "bench-survival" {
		return o, fmt.Errorf("--short: %s has no short form, bench-survival has", o.verb)
	}
	return o, nil
}

// demo removes its cluster, also when it fails; the logs stay in .out/demo.log.
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
	r.Routes = true
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

func bench(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) (err error) {
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

func platforms(ctx context.Context, n *rig.Narrator, out string, on func(platform string) *rig.Rig) error {
	ctx, cancel := context.WithTimeout(ctx, 2*drillTime)
	defer cancel()
	result, err := rig.BenchPlatforms(ctx, n, on)
	if err != nil {
		return err
	}
	result.Print(os.Stdout)
	return rig.Write(filepath.Join(out, "bench-platforms.json"), result)
}

// drillTime bounds a drill: a cluster that is not back by then does not come back.
// survivalTime does so for a benchmark that has the coordinators away for long.
const (
	drillTime    = 15 * time.Minute
	survivalTime = 60 * time.Minute
)

func survival(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string, short bool) error {
	plan := rig.SurvivalPlan{Rounds: 3, Long: 10 * time.Minute}
	if short {
		plan = rig.SurvivalPlan{Rounds: 1}
	}
	return drill(ctx, r, survivalTime, func(ctx context.Context) error {
		result, err := r.BenchSurvival(ctx, n, plan)
		return errors.Join(err, publish(result, out))
	})
}

func service(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string, handovers int) error {
	return drill(ctx, r, rig.ServiceTime(handovers), func(ctx context.Context) error {
		result, err := r.BenchService(ctx, n, handovers)
		return errors.Join(err, publish(result, out))
	})
}

// heal measures one workload after the other, each on a cloud of its own.
func heal(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) error {
	var all figures.Result
	for _, measure := range []func(*rig.Rig, context.Context, *rig.Narrator) (figures.Result, error){(*rig.Rig).BenchHealPostgres, (*rig.Rig).BenchHealEtcd} {
		err := drill(ctx, r, rig.HealTime, func(ctx context.Context) error {
			result, err := measure(r, ctx, n)
			result.Figures = append(all.Figures, result.Figures...)
			all = result
			return err
		})
		if err != nil {
			return errors.Join(err, publish(all, out))
		}
	}
	return publish(all, out)
}

// publish prints and stores the measured figures, also the ones from before an error.
func publish(result figures.Result, out string) error {
	if len(result.Figures) == 0 {
		return nil
	}
	result.Print(os.Stdout)
	return rig.Write(filepath.Join(out, "bench-"+result.Name+".json"), result)
}

func drillPower(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) error {
	return drill(ctx, r, drillTime, func(ctx context.Context) error {
		if err := r.Deploy(ctx, n); err != nil {
			return err
		}
		report, err := r.PowerLoss(ctx, n)
		if report.Processes != nil {
			report.Print(os.Stdout)
			err = errors.Join(err, rig.Write(filepath.Join(out, "drill-power.json"), report))
		}
		return err
	})
}

func drillUpgrade(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) error {
	r.Routes = true // the load writes through a route too
	return drill(ctx, r, drillTime, func(ctx context.Context) error {
		if err := r.Deploy(ctx, n); err != nil {
			return err
		}
		report, err := r.UpgradeCoordinators(ctx, n)
		if report.UpgradeS > 0 {
			report.Print(os.Stdout)
			err = errors.Join(err, rig.Write(filepath.Join(out, "drill-upgrade.json"), report))
		}
		return err
	})
}

// drill runs one with nothing there before, and removes its cluster, also when it fails:
// the cluster and its logs stay with CADRE_DEMO_KEEP only.
func drill(ctx context.Context, r *rig.Rig, limit time.Duration, run func(context.Context) error) (err error) {
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
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the drill is not over after %s", limit))
	defer cancel()
	return run(bounded)
}

// drillLight runs a drill with the light group; each call of apply writes another release.
func drillLight(ctx context.Context, r *rig.Rig, n *rig.Narrator, run func(ctx context.Context, apply func(context.Context) error) error) error {
	release := 1
	apply := func(ctx context.Context) error {
		_, err := r.ApplyLight(ctx, r.LightFile(), strconv.Itoa(release))
		release++
		return err
	}
	return drill(ctx, r, drillTime, func(ctx context.Context) error {
		n.Say("starting the local cloud, three coordinators and the group %s", rig.Light)
		if err := r.DeployLight(ctx, apply); err != nil {
			return err
		}
		return run(ctx, apply)
	})
}

func drillTCB(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) error {
	return drillLight(ctx, r, n, func(ctx context.Context, apply func(context.Context) error) error {
		var report struct {
			Day  rig.DayReport  `json:"day"`
			Late rig.LateReport `json:"late,omitzero"`
		}
		var err error
		if report.Day, err = r.FirmwareDay(ctx, n, apply); err == nil {
			report.Late, err = r.FirmwareLate(ctx, n)
		}
		if len(report.Day.Early) > 0 {
			report.Day.Print(os.Stdout)
		}
		if report.Late.Refused != "" {
			report.Late.Print(os.Stdout)
		}
		return errors.Join(err, rig.Write(filepath.Join(out, "drill-tcb.json"), report))
	})
}

func drillCoordinators(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) error {
	return drillLight(ctx, r, n, func(ctx context.Context, _ func(context.Context) error) error {
		report, err := r.CutCoordinators(ctx, n)
		if report.WholeS > 0 {
			report.Print(os.Stdout)
			err = errors.Join(err, rig.Write(filepath.Join(out, "drill-coordinators.json"), report))
		}
		return err
	})
}

// drillRestore removes its cluster as drillPower does.
func drillRestore(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) error {
	return drillLight(ctx, r, n, func(ctx context.Context, apply func(context.Context) error) error {
		report, err := r.RestoredBackup(ctx, n, apply)
		if report.Halted != "" {
			report.Print(os.Stdout)
			err = errors.Join(err, rig.Write(filepath.Join(out, "drill-restore.json"), report))
		}
		return err
	})
}

func up(ctx context.Context, r *rig.Rig, n *rig.Narrator, networkGiven bool, out io.Writer) error {
	r.Routes = true
	var err error
	switch {
	case r.Deployed() && networkGiven:
		return errors.New("a demo cluster is there already, and its network stays as it is: `make up` without NAT and UDP brings it back, `make down` removes it")
	case r.Deployed():
		err = r.BringBack(ctx, n)
	default:
		// The remains of an unfinished deployment are useless.
		if err = r.Down(ctx); err == nil {
			err = r.Deploy(ctx, n)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `
The cluster runs. Look around:

  export CADRE_CONTEXT=%s CADRE_LOCAL_STATE=%s
  bin/cadre group list
  bin/cadre instance list postgres
  bin/cadre rollout watch postgres        # in another terminal, then:
  bin/cadre instance restart postgres-2

make up brings it back when the machine was off; make down removes it.
`, format.Word(r.ContextFile()), format.Word(filepath.Dir(r.CloudFile())))
	return nil
}

// down removes every cluster of this program, from any starter, and reports that.
func down(ctx context.Context, root, out string, say io.Writer) error {
	var errs []error
	nothing := true
	for _, name := range states {
		did, err := rig.At(root, filepath.Join(out, name), nil).Remove(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !did.Nothing() {
			nothing = false
			fmt.Fprintln(say, did)
		}
	}
	if nothing && len(errs) == 0 {
		fmt.Fprintln(say, "nothing of the demo is there")
	}
	return errors.Join(errs...)
}
