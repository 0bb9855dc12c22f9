package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/group"
)

// overrideFlags are the flags of commands that set an override.
type overrideFlags struct {
	length time.Duration
	until  string
	reason string
	from   []string
	// noReason: the reason may be left out.
	noReason bool
}

func (f *overrideFlags) bind(c *cobra.Command) {
	c.Flags().DurationVar(&f.length, "for", 0, "how long it lasts, e.g. 2h (0: until removed)")
	c.Flags().StringVar(&f.until, "until", "", "its end, e.g. 2026-05-04T14:00:00Z, in place of --for")
	why := "reason, which the override shows"
	if !f.noReason {
		why += " (required)"
	}
	c.Flags().StringVar(&f.reason, "reason", "", why)
}

// check rejects invalid overrides, and computes the duration.
func (f *overrideFlags) check(now time.Time) error {
	switch {
	case strings.TrimSpace(f.reason) == "" && !f.noReason:
		return usagef("--reason is missing: the override shows it")
	case f.length < 0:
		return usagef("--for %s: must be more than 0", f.length)
	case f.until != "" && f.length != 0:
		return usagef("--for and --until are both given: take one of them")
	case f.until == "":
		return nil
	}
	until, err := time.Parse(time.RFC3339, f.until)
	if err != nil {
		return usagef("--until %q is no time: write it like 2026-05-04T14:00:00Z", f.until)
	}
	if f.length = until.Sub(now); f.length <= 0 {
		return usagef("--until %s has passed", f.until)
	}
	return nil
}

// override sets an override and prints its effect; text gets its end.
func (a *App) override(ctx context.Context, cl *client.Client, kind client.OverrideKind, name string, f overrideFlags, text func(until string) string) error {
	out, err := cl.SetOverride(ctx, kind, name, f.length, f.reason, f.from...)
	if err != nil {
		return err
	}
	until := "until an operator ends it"
	if !out.Until.IsZero() {
		until = "until " + out.Until.Local().Format("2006-01-02 15:04:05")
	}
	return a.show(out, func(render.Style) string { return text(until) + "\n" })
}

// clearOverride takes one back.
func (a *App) clearOverride(ctx context.Context, kind client.OverrideKind, name, done, none string) error {
	return a.withClient(func(cl *client.Client) error {
		changed, err := cl.ClearOverride(ctx, kind, name)
		if err != nil {
			return err
		}
		return a.show(map[string]bool{"changed": changed}, func(render.Style) string {
			if kind == client.OverrideExclude {
				if kept := keptBySpec(ctx, cl, name); kept != "" {
					done, none = name+" is excluded by no operator any more"+kept, none+kept
				}
			}
			if !changed {
				return none + "\n"
			}
			return done + "\n"
		})
	})
}

// keptBySpec lists the exclusions of a Slot in its group's spec, which outlast any override. "":
// none, or the caller may not read the spec.
func keptBySpec(ctx context.Context, cl *client.Client, slot string) string {
	name, ordinal, err := group.ParseSlot(slot)
	if err != nil {
		return ""
	}
	g, err := cl.Group(ctx, name)
	if err != nil {
		return ""
	}
	own, fields := g.Spec.Instance(ordinal), []string(nil)
	if own.ExcludeFromRollout {
		fields = append(fields, "exclude_from_rollout")
	}
	if own.ExcludeFromHealing {
		fields = append(fields, "exclude_from_healing")
	}
	if len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf("; the spec of %s leaves it out all the same: %s of its instance block", name, strings.Join(fields, " and "))
}

// slotOverride is an override on one slot, and the texts of its two verbs: the verb that sets it
// and the verb that removes it.
type slotOverride struct {
	kind                       client.OverrideKind
	short, back, long, example string
	// set is printed with the slot, the end and the excluded activities; gone and none are printed
	// with the slot, after a removal and when no override existed.
	set, gone, none string
	// waits: --wait waits until the slot is drained. from: --from lists the excluded activities.
	waits, from bool
}

// slotOverrides are all of them.
func slotOverrides() []slotOverride {
	return []slotOverride{
		{
			kind: client.OverrideDrain, short: "Take one instance out of service for maintenance", back: "Return a drained instance to service",
			long: `The instance transfers its leadership, runs its PRE_TERMINATE hooks and is drained, once its
group permits that. It then stays out of service, across reboots of its CVM and changes of
the leader. Meanwhile the leader leaves it alone, and it counts as unavailable. There is no
platform call: its CVM keeps running, and an operator may stop, move or repair it. End the
protection of a protected instance first.

` + "`cadre instance undrain`" + ` returns it to service, and so does the end of --for.`,
			example: "--for 2h --reason \"its host gets memory\" --wait",
			set:     "%[1]s will be out of service %[2]s; the leader drains it once its group permits that: `cadre instance describe %[1]s`",
			gone:    "%s goes back into service, and is updated and healed like the others again", none: "%s was not drained: nothing is changed", waits: true,
		},
		{
			kind: client.OverrideProtect, short: "Protect one instance from disruption", back: "End a protection",
			long: `The leader begins no step that would disrupt the instance or cost its disk: no update,
restart, replacement, drain or removal. The rollout updates the other instances first and
waits for this one at the end. The leader restarts a stopped CVM on its disk, without an update.

The deletion of a group includes its protected instances.`,
			example: "--for 4h --reason \"a long report reads from it\"",
			set:     "%[1]s is protected %[2]s; end it with `cadre instance unprotect %[1]s`",
			gone:    "%s is protected no more", none: "%s was not protected: nothing is changed",
		},
		{
			kind: client.OverrideExclude, short: "Exclude one instance from rollouts, from healing, or from both", back: "End an exclusion",
			long: `Excluded from rollouts, the instance stays at its revision. The rollout ends without it, and
is complete once the instance was updated afterwards. Excluded from healing, a failed instance
stays as it is. Without --from both apply. The instance stays in service, counts in every
budget and quorum, and accepts requests by its name: a restart, a replacement.

` + "`cadre instance include`" + ` ends the exclusion, and so does the end of --for: waiting steps begin then.`,
			example: "--from healing --for 8h --reason \"a crash of it is looked into\"",
			set:     "%[1]s is excluded from %[3]s %[2]s; end it with `cadre instance include %[1]s`",
			gone:    "%s is updated and healed like the others again", none: "%s was not excluded: nothing is changed", from: true,
		},
	}
}

// setSlotOverride is the verb that sets an override on a slot.
func (a *App) setSlotOverride(m slotOverride) *cobra.Command {
	var f overrideFlags
	var wait waitFlags
	verb := string(m.kind)
	c := &cobra.Command{
		Use: verb + " INSTANCE", Short: m.short, Long: m.long, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Example: "  cadre instance " + verb + " postgres-1 " + m.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(a.now()); err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				err := a.override(cmd.Context(), cl, m.kind, args[0], f, func(until string) string {
					return fmt.Sprintf(m.set, args[0], until, strings.Join(group.ExclusionOf(f.from).Words(), " and "))
				})
				if err != nil || !wait.wait {
					return err
				}
				return a.waitDrained(cmd.Context(), cl, args[0], wait.timeout)
			})
		},
	}
	f.bind(c)
	if m.from {
		c.Flags().StringSliceVar(&f.from, "from", nil, "the excluded activities: rollout, healing (neither named: both)")
	}
	if m.waits {
		wait.bind(c, "the instance is drained")
	}
	return c
}

// clearSlotOverride is the verb that takes it back.
func (a *App) clearSlotOverride(m slotOverride) *cobra.Command {
	return &cobra.Command{
		Use: m.kind.Undo() + " INSTANCE", Short: m.back, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.clearOverride(cmd.Context(), m.kind, args[0], fmt.Sprintf(m.gone, args[0]), fmt.Sprintf(m.none, args[0]))
		},
	}
}

// drainPoll is the interval between two reads of a draining Slot.
const drainPoll = time.Second

// waitDrained waits until a Slot is drained, and reports its hold at the timeout.
func (a *App) waitDrained(ctx context.Context, cl *client.Client, slot string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	why := "no coordinator answered"
	for {
		i, err := cl.Instance(ctx, slot)
		switch {
		case err == nil:
			if why = notDrained(i.Status); why == "" {
				if a.output != "json" {
					a.say(slot + " is drained")
				}
				return nil
			}
		case client.KindOf(err) != client.Unavailable && ctx.Err() == nil:
			return err
		}
		timer := time.NewTimer(drainPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if errors.Is(ctx.Err(), context.Canceled) {
				return silent{ExitError}
			}
			return latef("drain %s: not done after %s (%s); the drain continues", slot, limit, why)
		}
	}
}

// notDrained is why a Slot that is to be drained is not yet; "": it is.
func notDrained(i group.InstanceStatus) string {
	switch {
	case i.Drain == nil:
		return "the leader has not seen it yet, or it was taken back"
	case i.State == client.StateDrained:
		return ""
	case len(i.Holds) > 0:
		return i.Holds[0].Predicate + ": " + i.Holds[0].Message
	}
	return strings.TrimSuffix(string(i.State)+": "+i.Reason, ": ")
}

func (a *App) freezeCommand() *cobra.Command {
	var f overrideFlags
	c := &cobra.Command{
		Use: "freeze [GROUP]", Short: "Begin no step in a group, or anywhere: no rollout, no healing, no change of size", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `The leader returns a step that has made no platform call, and finishes every other step.
` + "`cadre rollout pause`" + ` holds a group's rollout and removals; a freeze also holds healing, new
instances and requests by an instance's name. Without a group everything is frozen.`,
		Example: "  cadre freeze --for 72h --reason \"the shop's big days\"\n  cadre freeze postgres --reason \"we look into the lag\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(a.now()); err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				name := strings.Join(args, "")
				return a.override(cmd.Context(), cl, client.OverrideFreeze, name, f, func(until string) string {
					return fmt.Sprintf("%s is frozen %s; end it with `%s`", everything(name), until, strings.TrimSpace("cadre unfreeze "+name))
				})
			})
		},
	}
	f.bind(c)
	return c
}

func (a *App) unfreezeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unfreeze [GROUP]", Short: "End a freeze", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Long: "Ends the freeze of a group, or without a group the freeze of everything. Each is a\nfreeze of its own: a group stays frozen while the other freeze exists.",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			return a.clearOverride(cmd.Context(), client.OverrideFreeze, name, everything(name)+" is frozen no more", everything(name)+" was not frozen: nothing is changed")
		},
	}
}

func everything(name string) string {
	if name == "" {
		return "everything"
	}
	return name
}

func (a *App) overridesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "overrides [GROUP]", Short: "List the operators' pauses, freezes, drains, protections, exclusions and overrides of holds", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Long: "Lists the operators' pauses, freezes, drains, protections, exclusions and overrides of holds, and as a\nsecond table the closed gates at which work may wait. `cadre gate list` has all gates; -o json has the\noverrides alone.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				name := strings.Join(args, "")
				list, err := cl.Overrides(cmd.Context(), name)
				if err != nil {
					return err
				}
				gates, unread := cl.Gates(cmd.Context(), name)
				return a.show(list, func(s render.Style) string {
					text := render.Overrides(s, list)
					if unread != nil { // coordinators of an older version have no gates
						return text + s.Line("gates are not listed: "+oneLine(unread), render.Warn)
					}
					if gates = slices.DeleteFunc(gates, passes); len(gates) > 0 {
						text += "\n" + render.Gates(s, gates)
					}
					return text
				})
			})
		},
	}
}

// passes reports a gate that holds nothing now: an open one, or one per slot without a step.
func passes(g client.Gate) bool {
	return g.State == group.GateOpen || g.Per == group.GatePerSlot && g.Step == ""
}
