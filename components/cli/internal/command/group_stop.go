package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/group"
)

// groupStop is the edit of one field of the stored spec: stopped.
func (a *App) groupStop(stop bool) *cobra.Command {
	var sure sureFlags
	f := applyFlags{verb: "start"}
	c := &cobra.Command{
		Use: "start GROUP", Short: "Start a stopped group", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `Sets ` + "`stopped = false`" + ` in the group's spec. The CVMs start at the revision that they have; a
newer revision is rolled out afterwards. Change the group's file too: its next apply otherwise
stops the group again.`,
		Example: "  cadre group start postgres --wait",
	}
	if stop {
		f.verb = "stop"
		c.Use, c.Short = "stop GROUP", "Stop all CVMs of a group and keep their disks"
		c.Long = `Sets ` + "`stopped = true`" + ` in the group's spec. The instances are drained and stopped one after the
other, the leader last. Disks, addresses and records stay. Change the group's file too: its next
apply otherwise starts the group again.

Without --confirm or --yes the command only prints the change and the leader's plan.`
		c.Example = "  cadre group stop postgres --reason \"no tests at night\" --confirm postgres --wait"
		sure.bind(c, "GROUP")
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withClient(func(cl *client.Client) error {
			g, err := cl.Group(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			spec, err := group.Decode(g.SpecJSON)
			if err != nil { // the spec is written back, so no field of it may be unknown here
				return fmt.Errorf("the spec of %s cannot be read, use a program of the coordinators' version: %w", args[0], err)
			}
			meant := !stop || sure.sure(args[0])
			f.dryRun, f.index, spec.Stopped = !meant, g.Index, stop
			if err := a.apply(cmd, cl, f, []groupfile.Group{{Spec: spec}}); err != nil || meant {
				return err
			}
			return usagef("nothing is changed: repeat with --confirm %s", args[0])
		})
	}
	c.Flags().StringVar(&f.reason, "reason", "", "reason, for the record")
	until := "every slot is available"
	if stop {
		until = "every CVM is stopped"
	}
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until "+until)
	c.Flags().DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long --wait waits; the leader continues after it")
	return c
}
