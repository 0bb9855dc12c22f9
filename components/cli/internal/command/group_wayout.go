package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
		Use: "delete GROUP --keep-cvms|--delete-disks", Short: "Take a group down: all its slots, then its records", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `The leader takes the group's slots out of service one after the other and then removes
its spec and records. Exactly one of these says what becomes of the CVMs:

  --keep-cvms     they are left on the platform as they are; Cadre forgets them, and
                  their credentials end
  --delete-disks  they are deleted, and everything on their disks with them

Removing a group's spec alone (a KV edit) deletes nothing. --cancel takes a deletion
back: what is not gone yet stays.

Without --confirm or --yes it only says what would go.`,
		Example: "  cadre group delete web --delete-disks --reason \"replaced by web2\" --confirm web --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case d.Cancel && (d.KeepCVMs || d.DeleteDisks):
				return usagef("--cancel takes a deletion back: it goes with neither --keep-cvms nor --delete-disks")
			case !d.Cancel && d.KeepCVMs == d.DeleteDisks:
				return usagef("say what becomes of the CVMs: --keep-cvms or --delete-disks, one of them")
			case !d.Cancel && strings.TrimSpace(d.Reason) == "":
				return usagef("--reason is missing: whoever finds the group gone will look for it")
			}
			return a.withClient(func(cl *client.Client) error { return a.deleteGroup(cmd.Context(), cl, args[0], d, sure, wait) })
		},
	}
	c.Flags().BoolVar(&d.KeepCVMs, "keep-cvms", false, "leave the CVMs on the platform")
	c.Flags().BoolVar(&d.DeleteDisks, "delete-disks", false, "delete the CVMs and their disks")
	c.Flags().BoolVar(&d.Cancel, "cancel", false, "take a deletion back")
	c.Flags().StringVar(&d.Reason, "reason", "", "why, for the record (required)")
	sure.bind(c, "GROUP")
	wait.bind(c, "nothing of the group is left")
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
	ctx, cancel := context.WithTimeout(ctx, wait.timeout)
	defer cancel()
	last := ""
	tell := func(text string) {
		if text != last {
			a.print(fmt.Sprintf("%s  %s\n", a.now().Format("15:04:05"), text))
		}
		last = text
	}
	err = cl.WaitGone(ctx, name, tell, func(err error) {
		first, _, _ := strings.Cut(err.Error(), "\n")
		tell("no coordinator answers, still trying: " + first)
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return latef("group %s is not gone after %s; it goes on, see `cadre group get %s`", name, wait.timeout, name)
	case err == nil:
		a.print(fmt.Sprintf("group %s is gone\n", name))
	}
	return err
}

// adopted is the outcome of an adoption, also the form of -o json.
type adopted struct {
	Group string `json:"group"`
	// Adopted are the slots that the leader was asked to bind.
	Adopted []string            `json:"adopted"`
	Members []rollout.Adoptable `json:"members"`
}

func (a *App) groupAdopt() *cobra.Command {
	var reason string
	var only []string
	var sure sureFlags
	var wait waitFlags
	c := &cobra.Command{
		Use: "adopt GROUP", Short: "Make running CVMs members again whose records are lost", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `While the records of a slot are lost, nothing is done to the CVM that has its name
(held, blocked(unadopted)), and its agent goes on asking for admission. This lists each
such slot with the CVM and with what its agent attested: instance, compose hash and the
revision that measures so, or what is missing.

Compare the instances with what you know of the group. With --confirm or --yes the
leader binds exactly the instances and hashes that are listed, and lets their boots in
when they attest the next time: nothing is restarted.

A group whose spec is lost as well is applied again first.`,
		Example: "  cadre group adopt postgres\n  cadre group adopt postgres --reason \"restored from an older snapshot\" --confirm postgres --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			meant := sure.sure(args[0])
			if meant && strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: it stands in the record of the adoption")
			}
			return a.withClient(func(cl *client.Client) error {
				return a.adopt(cmd.Context(), cl, args[0], reason, only, meant, wait)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record (required to adopt)")
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
