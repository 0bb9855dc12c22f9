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
		Use: "instance", Short: "Instances: the CVMs of groups, one per slot",
		Long: `Instances: the CVMs of groups, one per slot.

The group's file has the settings of single instances (metadata, values of env, a pinned revision, a
preserved disk), and the instances that a smaller group removes: change the file and apply it, or use
Terraform's cadre_instance.`,
	}
	c.AddCommand(a.instanceList(), a.instanceDescribe(), a.instanceUpdate(), a.instanceRestart(), a.instanceReplace(), a.instanceRun())
	for _, m := range slotOverrides() {
		c.AddCommand(a.setSlotOverride(m), a.clearSlotOverride(m))
	}
	return c
}

func (a *App) instanceList() *cobra.Command {
	return &cobra.Command{
		Use: "list [GROUP]", Aliases: []string{"ls"}, Short: "List instances with role, health, revision and reason", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `Lists the instances of a group, or of all groups, with role, health, state, revision, and the reason
of a wait. With -o wide the table has the platform's node and region of each CVM too.`,
		Example:     "  cadre instance list\n  cadre instance list postgres -o wide",
		Annotations: map[string]string{formWide: ""},
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
				return a.show(list, func(s render.Style) string { return render.Instances(s, list, a.output == formWide, a.now()) })
			})
		},
	}
}

func (a *App) instanceDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe INSTANCE", Short: "Show all details of one instance", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
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
		Use: "update INSTANCE", Short: "Update one instance to its group's revision now, and wait until it is available", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `Updates only this instance to the spec's revision, in three cases: the group's updates are
OPPORTUNISTIC, the group is paused, or the rollout waits for an operator. A rollout waits for
an operator before the leader's step, and before a step above
most_disruptive_allowed_action. An instance whose own update failed is tried once more. In
other cases the rollout updates the instance, and the command waits for that. The update also
applies the instance's own env values and size. ` + "`cadre instance restart`" + ` restarts without a change of
the revision, also an instance that failed at the revision of its group.

The command fails at once, with every reason, when the group does not permit the update: a
quorum that would be lost, a freeze, a failed rollout. It waits while another instance is in a
step.`,
		Example: "  cadre instance update consul-1 --reason \"one at a time, by hand\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error { return a.updateInstance(cmd.Context(), cl, args[0], o, timeout) })
		},
	}
	c.Flags().StringVar(&o.Reason, "reason", "", "reason, for the record")
	c.Flags().StringVar(&o.Revision, "revision", "", "fail when the spec asks for another revision than this")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Minute, "how long the command waits; the operation continues after it")
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
		return latef("instance %s: not available at its revision after %s; the operation continues, see `cadre instance describe %s`", slot, timeout, slot)
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
		Use: "restart INSTANCE", Short: "Request a restart of one instance at its revision, under its group's budget and quorum rules", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `The leader drains the instance and restarts its CVM on its disk, at its present revision, under
its group's budget and quorum rules. Until the rules permit it, the request waits:
` + "`cadre operation requests`" + ` lists it, and ` + "`cadre operation cancel`" + ` cancels it. To move the instance to
its group's revision, use ` + "`cadre instance update`" + `. When the CVM already has that revision and never
ran it, the restart waits for it.

With --service the agent restarts only that service's workload, in its container: the CVM and its
attestation stay, and there is no platform call. The service needs an x-cadre key in the compose
file, and the agent must be connected; otherwise the command fails at once.`,
		Example: "  cadre instance restart postgres-1 --reason \"it leaks\" --wait\n  cadre instance restart postgres-1 --service postgres --reason \"a new library path\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				return a.restartInstance(cmd.Context(), cl, args[0], service, reason, wait)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, for the record")
	c.Flags().StringVar(&service, "service", "", "restart only this `service`, in its container")
	wait.bind(c, "the instance is available again")
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
