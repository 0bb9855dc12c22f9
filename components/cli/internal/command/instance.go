package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
)

func (a *App) instanceCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "instance", Short: "Instances: one CVM per slot",
		Long: `Instances: one CVM per slot.

What a slot has of its own (metadata, values of env, a pinned revision, a preserved disk), and which slots a
smaller group is to be without, is part of the group: write it into the group's file and apply that, or
use Terraform's cadre_instance.`,
	}
	c.AddCommand(a.instanceList(), a.instanceDescribe(), a.instanceUpdate(), a.instanceRestart(), a.instanceReplace())
	for _, m := range slotOverrides() {
		c.AddCommand(a.setSlotOverride(m), a.clearSlotOverride(m))
	}
	return c
}

func (a *App) instanceList() *cobra.Command {
	return &cobra.Command{
		Use: "list [GROUP]", Aliases: []string{"ls"}, Short: "List slots with role, health, revision and why", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Instances(cmd.Context(), name)
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Instances(s, list, a.now()) })
			})
		},
	}
}

func (a *App) instanceDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe INSTANCE", Short: "Show everything about one slot", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				i, err := cl.Instance(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(i, func(s render.Style) string { return render.Instance(s, i, a.now()) })
			})
		},
	}
}

// updated is the outcome of an update, also the form of -o json.
type updated struct {
	Slot     string          `json:"slot"`
	Revision string          `json:"revision"`
	State    group.SlotState `json:"state"`
}

func (a *App) instanceUpdate() *cobra.Command {
	var o client.UpdateOptions
	var timeout time.Duration
	c := &cobra.Command{
		Use: "update INSTANCE", Short: "Bring one slot to its group's revision now, and wait until it is available", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `For a group whose updates are OPPORTUNISTIC: this slot takes the revision that the spec
asks for, and no other one does. So it is while the group is paused, and where the rollout
waits for a person: the leader is asked about, or the step takes more than
most_disruptive_allowed_action. A slot whose own update failed is tried once more. Elsewhere
the rollout updates it, and this waits for it. Values of env that the slot has for itself are
brought to it in the same way. A restart that stays at what runs is cadre instance restart.

What the group cannot bear now is refused at once, with every reason: a quorum that would
be lost, a freeze, a failed rollout. While another slot is in a step, it is waited for.`,
		Example: "  cadre instance update consul-1 --reason \"one at a time, by hand\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error { return a.updateInstance(cmd.Context(), cl, args[0], o, timeout) })
		},
	}
	c.Flags().StringVar(&o.Reason, "reason", "", "why, for the record")
	c.Flags().StringVar(&o.Revision, "revision", "", "refuse when the group asks for another revision than this")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Minute, "how long it is waited for; what was begun goes on")
	return c
}

func (a *App) updateInstance(ctx context.Context, cl *client.Client, slot string, o client.UpdateOptions, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	screen := a.newScreen()
	o.ByHand = true
	o.See, o.Lost = screen.see, screen.lost
	status, err := cl.UpdateInstance(ctx, slot, o)
	screen.end()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return latef("instance %s: not available at its revision after %s; it goes on, see `cadre instance describe %s`", slot, timeout, slot)
	case err != nil:
		return err
	}
	out := updated{Slot: slot, Revision: status.Observed, State: status.State}
	if a.output == "json" {
		return a.json(out)
	}
	a.say(fmt.Sprintf("%s runs revision %s and is available", slot, format.Short(out.Revision)))
	return nil
}

func (a *App) instanceRestart() *cobra.Command {
	var reason, service string
	var wait waitFlags
	c := &cobra.Command{
		Use: "restart INSTANCE", Short: "Ask for a restart of one slot at what it runs, under its group's budget and quorum rules", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `The slot is drained and its CVM restarts on its disk, at the revision that it runs, under its
group's budget and quorum rules. Until they let it begin it waits: ` + "`cadre operation requests`" + `
lists it, and ` + "`cadre operation cancel`" + ` takes it back. To bring the slot to its group's revision is
` + "`cadre instance update`" + `; a restart whose CVM was given that already, and never ran it, waits for it.

With --service only that service's workload starts anew, in its container: the CVM and what
it proved stay, and the platform is not called. The compose file has an x-cadre key for such
a service, and the agent must be there to do it; otherwise it is refused at once.`,
		Example: "  cadre instance restart postgres-1 --reason \"it leaks\" --wait\n  cadre instance restart postgres-1 --service postgres --reason \"a new library path\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				return a.restartInstance(cmd.Context(), cl, args[0], service, reason, wait)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	c.Flags().StringVar(&service, "service", "", "restart only this `service`, in its container")
	wait.bind(c, "the slot is available again")
	return c
}

func (a *App) restartInstance(ctx context.Context, cl *client.Client, slot, service, reason string, wait waitFlags) error {
	what, who, ask := slot, "it", func() (string, error) { return cl.Restart(ctx, slot, reason) }
	if service != "" {
		what, who, ask = "service "+service+" of "+slot, "the slot", func() (string, error) { return cl.RestartService(ctx, slot, service, reason) }
	}
	id, err := ask()
	if err != nil {
		return err
	}
	if a.output == "json" {
		out := map[string]string{"slot": slot, "request_id": id}
		if service != "" {
			out["service"] = service
		}
		if err := a.json(out); err != nil {
			return err
		}
	} else {
		a.say(fmt.Sprintf("restart of %s is queued (%s); %s is drained first and waits for its turn: `cadre instance describe %s`", what, id, who, slot))
	}
	return a.waitRequest(ctx, cl, wait, id, "restart "+what)
}
