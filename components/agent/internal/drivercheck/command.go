package drivercheck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/core/group"
)

const usage = `usage: cadre-agent driver check [flags] http://127.0.0.1:9900
       cadre-agent driver check [flags] -exec compose.yaml SERVICE

Holds an adapter of a custom workload to the contract, at a running member. Without -transfer, -drain
and -change, no check changes the workload. Run it at the leader and at a follower.
docs/guides/drivers.md has the contract.

Exit code: 0 all checks passed, 1 a check failed, 2 wrong usage.

`

// flags of one call.
type options struct {
	slot, compose, candidates  string
	voters, asJSON             bool
	transfer, drain            bool
	budget                     time.Duration
	set, handOver, change, vip string
}

// Command is "cadre-agent driver ARGS...". It returns the exit code.
func Command(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("cadre-agent driver check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.slot, "slot", getenv("CADRE_SLOT"), "`name` of the member's slot, such as kafka-0 (env CADRE_SLOT)")
	flags.StringVar(&o.compose, "exec", "", "compose `file` whose SERVICE declares the adapter's commands; they run on this machine")
	flags.BoolVar(&o.voters, "voters", false, "the setting voters of the group")
	flags.StringVar(&o.set, "set", group.SetNone, "the setting set of the group: none, changes or adds")
	flags.StringVar(&o.handOver, "hand-over", group.HandOver, "the setting hand_over of the group: transfer or stop")
	flags.BoolVar(&o.transfer, "transfer", false, "move leadership off the member, which leads")
	flags.StringVar(&o.candidates, "candidates", "", "`slots` that may take over, separated by commas; empty: the other voters or followers")
	flags.BoolVar(&o.drain, "drain", false, "drain the member and return it to service")
	flags.StringVar(&o.change, "change", "", "`slot` that the set does not list: add it and remove it again")
	flags.StringVar(&o.vip, "address", "127.0.0.1", "`address` of that slot")
	flags.DurationVar(&o.budget, "budget", 0, fmt.Sprintf("`time` for the answer about the member; 0: that of the agent, %s, or %s with -exec", driver.CustomBudget, driver.CustomExecBudget))
	flags.BoolVar(&o.asJSON, "json", false, "print one JSON object for each check")
	if len(args) == 0 || args[0] != "check" {
		flags.Usage()
		return 2
	}
	var adapters []string
	for rest := args[1:]; ; { // flags may follow the adapter
		switch err := flags.Parse(rest); {
		case errors.Is(err, flag.ErrHelp):
			return 0
		case err != nil:
			return 2
		}
		if flags.NArg() == 0 {
			break
		}
		adapters, rest = append(adapters, flags.Arg(0)), flags.Args()[1:]
	}
	cfg, err := o.config(adapters)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "cadre-agent driver check: %v\n", err)
		return 2
	}
	defer driver.Close(cfg.Driver)
	return o.print(ctx, cfg, stdout)
}

// config makes the driver as the agent makes it.
func (o options) config(args []string) (Config, error) {
	if len(args) != 1 {
		return Config{}, errors.New("give one adapter: its URL, or with -exec its service")
	}
	if _, _, err := group.ParseSlot(o.slot); err != nil {
		return Config{}, fmt.Errorf("-slot: %w", err)
	}
	cfg := Config{
		Self: o.slot, Votes: o.voters, Stops: o.handOver == group.HandOverEnd, Set: o.set,
		Transfer: o.transfer, Drain: o.drain, Change: o.change,
	}
	if o.candidates != "" {
		cfg.Candidates = strings.Split(o.candidates, ",")
	}
	vip, err := netip.ParseAddr(o.vip)
	if err != nil {
		return Config{}, fmt.Errorf("-address: %w", err)
	}
	settings := map[string]string{"voters": strconv.FormatBool(o.voters), "set": o.set, "hand_over": o.handOver}
	made := driver.Config{
		Kind: group.WorkloadCustom, Settings: settings, Self: o.slot, Budget: o.budget, Log: slog.New(slog.DiscardHandler),
		VIP: func(string) (netip.Addr, bool) { return vip, true },
	}
	if o.compose != "" {
		settings["exec_service"] = args[0]
		commands, err := readCommands(o.compose, group.Workload{Kind: made.Kind, Settings: settings})
		if err != nil {
			return Config{}, err
		}
		made.Commands, cfg.Wire = commands, ExecWire{Service: args[0], Commands: commands}
	} else {
		settings["http"] = strings.TrimSuffix(strings.TrimPrefix(args[0], "http://"), "/")
		cfg.Wire = HTTPWire{Address: settings["http"]}
	}
	cfg.Driver, err = driver.New(made)
	return cfg, err
}

// print reports each result in a line, or in three if it failed.
func (o options) print(ctx context.Context, cfg Config, out io.Writer) int {
	count := map[string]int{}
	failed := Run(ctx, cfg, func(r Result) {
		count[r.Outcome]++
		if o.asJSON {
			_ = json.NewEncoder(out).Encode(r)
			return
		}
		word := map[string]string{Passed: "ok  ", Failed: "FAIL", Skipped: "skip"}[r.Outcome]
		line := word + "  " + r.Check
		if r.Text != "" {
			line += ": " + strings.ReplaceAll(r.Text, "\n", "\n        ")
		}
		if r.Outcome == Failed {
			line += "\n        expected: " + r.Expected + "\n        way out:  " + r.Fix
		}
		_, _ = fmt.Fprintln(out, line)
	})
	if !o.asJSON {
		_, _ = fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", count[Passed], count[Failed], count[Skipped])
	}
	return cmp.Compare(failed, 0)
}
