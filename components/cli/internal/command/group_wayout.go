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
	"cadre.dev/core/rollout"
)

func (a *App) groupDelete() *cobra.Command {
	var d client.Deletion
	var sure sureFlags
	var wait waitFlags
	c := &cobra.Command{
		Use: "delete GROUP --keep-cvms|--delete-disks", Short: "Delete a group: all its instances, then its records", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `The leader takes the group's instances out of service one after the other and then
removes the group's spec and records. Exactly one flag decides about the CVMs:

  --keep-cvms     leave the CVMs on the platform; Cadre forgets the CVMs, and their
                  credentials expire
  --delete-disks  delete the CVMs and all data on their disks

Removing only a group's spec (a KV edit) keeps the CVMs. --cancel ends a deletion: the
remaining instances stay.

Without --confirm or --yes the command only prints the resources to delete.`,
		Example: "  cadre group delete web --delete-disks --reason \"replaced by web2\" --confirm web --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case d.Cancel && (d.KeepCVMs || d.DeleteDisks):
				return usagef("--cancel ends a deletion: give it without --keep-cvms and --delete-disks")
			case !d.Cancel && d.KeepCVMs == d.DeleteDisks:
				return usagef("give exactly one of --keep-cvms and --delete-disks")
			case !d.Cancel && strings.TrimSpace(d.Reason) == "":
				return usagef("--reason is missing: the records show it as the cause of the deletion")
			}
			return a.withClient(func(cl *client.Client) error { return a.deleteGroup(cmd.Context(), cl, args[0], d, sure, wait) })
		},
	}
	c.Flags().BoolVar(&d.KeepCVMs, "keep-cvms", false, "leave the CVMs on the platform")
	c.Flags().BoolVar(&d.DeleteDisks, "delete-disks", false, "delete the CVMs and their disks")
	c.Flags().BoolVar(&d.Cancel, "cancel", false, "end a deletion; the remaining instances stay")
	c.Flags().StringVar(&d.Reason, "reason", "", "reason, for the record (required)")
	sure.bind(c, "GROUP")
	wait.bind(c, "the group is gone")
	return c
}

func (a *App) deleteGroup(ctx context.Context, cl *client.Client, name string, d client.Deletion, sure sureFlags, wait waitFlags) error {
	meant := d.Cancel || sure.sure(name)
	d.DryRun = !meant
	out, err := cl.DeleteGroup(ctx, name, d)
	if err != nil {
		return err
	}
	if err := a.unlessSure(out, meant, name, func(s render.Style) string { return render.Deleted(s, out, d) }); err != nil || d.Cancel || !wait.wait {
		return err
	}
	return a.waitGone(ctx, cl, []string{name}, wait.timeout)
}

// waitGone waits until the groups are gone, and prints the progress of each.
func (a *App) waitGone(ctx context.Context, cl *client.Client, groups []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := ""
	tell := func(text string) {
		if text != last {
			a.print(fmt.Sprintf("%s  %s\n", a.now().Format("15:04:05"), text))
		}
		last = text
	}
	for _, name := range groups {
		err := cl.WaitGone(ctx, name, func(message string) { tell("group " + name + ": " + message) }, func(err error) {
			first, _, _ := strings.Cut(err.Error(), "\n")
			tell("no coordinator answers, still trying: " + first)
		})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return latef("group %s is not gone after %s; the deletion continues, see `cadre group describe %s`", name, timeout, name)
		case errors.Is(ctx.Err(), context.Canceled):
			return fmt.Errorf("group %s: the wait was interrupted; the deletion continues, see `cadre group describe %s`", name, name)
		case err != nil:
			return err
		}
		a.print(fmt.Sprintf("group %s is gone\n", name))
	}
	return nil
}

// adopted is the outcome of an adoption, and the schema of -o json.
type adopted struct {
	Group string `json:"group"`
	// Adopted lists the slots that the request asks the leader to bind.
	Adopted []string            `json:"adopted"`
	Members []rollout.Adoptable `json:"members"`
}

func (a *App) groupAdopt() *cobra.Command {
	var reason string
	var only []string
	var sure sureFlags
	var wait waitFlags
	c := &cobra.Command{
		Use: "adopt GROUP", Short: "Adopt running CVMs whose records are lost", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `When the records of a slot are lost, the leader leaves the CVM of that name alone
(blocked(unmanaged_instance)), and the CVM's agent keeps requesting admission. The command lists each
such slot with its CVM and the agent's evidence: instance, compose hash and the matching
revision, or the missing item.

Compare the instances with your own list of the group. With --confirm or --yes the leader
binds exactly the listed instances and hashes, and admits each boot at its next attestation.
The CVMs keep running.

Apply the group's spec first when the spec is lost as well.`,
		Example: "  cadre group adopt postgres\n  cadre group adopt postgres --reason \"restored from an older snapshot\" --confirm postgres --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			meant := sure.sure(args[0])
			if meant && strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: the record of the adoption shows it")
			}
			return a.withClient(func(cl *client.Client) error {
				return a.adopt(cmd.Context(), cl, args[0], reason, only, meant, wait)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, for the record (required to adopt)")
	c.Flags().StringSliceVar(&only, "slot", nil, "only this slot; may be repeated")
	sure.bind(c, "GROUP")
	wait.bind(c, "every adopted slot is available")
	return c
}

func (a *App) adopt(ctx context.Context, cl *client.Client, name, reason string, only []string, meant bool, wait waitFlags) error {
	all, err := cl.Adoptable(ctx, name)
	if err != nil {
		return err
	}
	out := adopted{Group: name, Adopted: []string{}, Members: []rollout.Adoptable{}}
	var ready []rollout.Adoptable
	for _, m := range all {
		if len(only) > 0 && !slices.Contains(only, m.Slot) {
			continue
		}
		out.Members = append(out.Members, m)
		if m.Missing == "" {
			ready, out.Adopted = append(ready, m), append(out.Adopted, m.Slot)
		}
	}
	for _, slot := range only {
		if !slices.ContainsFunc(out.Members, func(m rollout.Adoptable) bool { return m.Slot == slot }) {
			return usagef("--slot %s: it is bound, or group %s has no such slot", slot, name)
		}
	}
	if meant && len(ready) > 0 {
		if _, err := cl.Adopt(ctx, name, ready, reason); err != nil {
			return err
		}
	}
	if !meant {
		out.Adopted = []string{}
	}
	picture := func(s render.Style) string { return render.Adoptables(s, out.Members, name, meant, a.now()) }
	if len(out.Members) == 0 || !meant && len(ready) == 0 {
		return a.show(out, picture)
	}
	if err := a.unlessSure(out, meant, name, picture); err != nil {
		return err
	}
	if len(ready) == 0 {
		return silent{ExitRefused}
	}
	return a.waitAdopted(ctx, cl, name, out.Adopted, wait)
}

// waitAdopted waits until the slots are available.
func (a *App) waitAdopted(ctx context.Context, cl *client.Client, name string, slots []string, wait waitFlags) error {
	if !wait.wait {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait.timeout)
	defer cancel()
	last := map[string]string{}
	err := client.Poll(ctx, func(ctx context.Context) (bool, error) {
		list, err := cl.Instances(ctx, name)
		there := 0
		for _, i := range list {
			if !slices.Contains(slots, i.Slot) {
				continue
			}
			if i.State == client.StateAvailable {
				there++
			}
			if text := i.Slot + " is " + string(i.State) + ": " + i.Reason; last[i.Slot] != text {
				last[i.Slot] = text
				a.print(fmt.Sprintf("%s  %s\n", a.now().Format("15:04:05"), strings.TrimSuffix(text, ": ")))
			}
		}
		return err == nil && there == len(slots), err
	}, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		return latef("the adopted slots of %s are not all available after %s; see `cadre admission list %s`", name, wait.timeout, name)
	}
	return err
}
