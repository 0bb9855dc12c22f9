package command

import (
	"context"
	"errors"
	"fmt"
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
	c.Flags().DurationVar(&f.length, "for", 0, "how long it stands, e.g. 2h (0: until it is taken back)")
	c.Flags().StringVar(&f.until, "until", "", "until when it stands, e.g. 2026-05-04T14:00:00Z, in place of --for")
	why := "why, for whoever finds it"
	if !f.noReason {
		why += " (required)"
	}
	c.Flags().StringVar(&f.reason, "reason", "", why)
}

// check rejects invalid overrides, and computes the duration.
func (f *overrideFlags) check(now time.Time) error {
	switch {
	case strings.TrimSpace(f.reason) == "" && !f.noReason:
		return usagef("--reason is missing: it is shown to whoever finds the override")
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
	until := "until it is taken back"
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
			kind: client.OverrideDrain, short: "Take one slot out of service for maintenance, and leave it alone", back: "Put a slot back that was drained",
			long: `The slot hands over what it leads, runs its PRE_TERMINATE hooks and is drained, once its
group can bear that. It then stays out of service, across reboots of its CVM and changes
of the leader: nothing updates, heals or removes it, and it counts as unavailable. No
platform call is made: its CVM runs on, and may be stopped, moved or mended by hand.
A protected slot is not drained: take its protection back first.

` + "`cadre instance undrain`" + ` puts it back, and so does the end of --for.`,
			example: "--for 2h --reason \"its host gets memory\" --wait",
			set:     "%[1]s is to be out of service %[2]s; it is drained once its group can bear that: `cadre instance describe %[1]s`",
			gone:    "%s goes back into service, and is updated and healed like the others again", none: "%s was not drained: nothing is changed", waits: true,
		},
		{
			kind: client.OverrideProtect, short: "Keep one slot from all that would disrupt it", back: "Take a protection back",
			long: `Nothing begins that would take the slot away or cost its disk: no update, restart,
replacement, drain or removal. The rollout goes around it and waits for it at the end.
What is known to be down is restarted on its disk all the same, and not updated.

A group that is deleted is deleted with it.`,
			example: "--for 4h --reason \"a long report reads from it\"",
			set:     "%[1]s is protected %[2]s; take it back with `cadre instance unprotect %[1]s`",
			gone:    "%s is protected no more", none: "%s was not protected: nothing is changed",
		},
		{
			kind: client.OverrideExclude, short: "Leave one slot out of rollouts, of healing, or of both", back: "Take an exclusion back",
			long: `Left out of rollouts the slot stays at the revision that it has; the rollout ends without
it, and is complete once it was updated afterwards. Left out of healing it stays as it is when
it breaks by itself. Without --from it is both. It stays in service meanwhile, counts in every
budget and quorum, and what is asked for by its name is done: a restart, a replacement.

` + "`cadre instance include`" + ` ends it, and so does the end of --for: what it kept back begins then.`,
			example: "--from healing --for 8h --reason \"a crash of it is looked into\"",
			set:     "%[1]s is excluded from %[3]s %[2]s; take it back with `cadre instance include %[1]s`",
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
		c.Flags().StringSliceVar(&f.from, "from", nil, "what it is left out of: rollout, healing (neither named: both)")
	}
	if m.waits {
		wait.bind(c, "the slot is drained")
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

// drainPoll is between two looks at a Slot that is to be drained.
const drainPoll = time.Second

// waitDrained waits until a Slot is drained, and reports its hold at the timeout.
func (a *App) waitDrained(ctx context.Context, cl *client.Client, slot string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	why := "nobody told"
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
			return latef("drain %s: not done after %s (%s); it goes on", slot, limit, why)
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
		Use: "freeze [GROUP]", Short: "Begin nothing in a group, or anywhere: no rollout, no healing, no change of size", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `A step that was not carried out yet goes back, one that was is finished. Unlike
` + "`cadre rollout pause`" + `, which holds a group's rollout and removals, a freeze stops healing,
new slots and what is asked for by a slot's name too. Without a group everything is frozen.`,
		Example: "  cadre freeze --for 72h --reason \"the shop's big days\"\n  cadre freeze postgres --reason \"we look into the lag\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(a.now()); err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				name := strings.Join(args, "")
				return a.override(cmd.Context(), cl, client.OverrideFreeze, name, f, func(until string) string {
					return fmt.Sprintf("%s is frozen %s; take it back with `%s`", everything(name), until, strings.TrimSpace("cadre unfreeze "+name))
				})
			})
		},
	}
	f.bind(c)
	return c
}

func (a *App) unfreezeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unfreeze [GROUP]", Short: "Take a freeze back", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Long: "Takes back the freeze of a group, or without a group that of everything. Each is a\nfreeze of its own: a group stays frozen while the other one stands.",
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
		Use: "overrides [GROUP]", Short: "List what operators paused, froze, drained, protected or excluded", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Overrides(cmd.Context(), strings.Join(args, ""))
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Overrides(s, list) })
			})
		},
	}
}
