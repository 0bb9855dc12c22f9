package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/client/groupfile"
)

func (a *App) rolloutUndo() *cobra.Command {
	var to string
	var sure sureFlags
	var f applyFlags
	c := &cobra.Command{
		Use: "undo GROUP", Short: "Go back to the revision before", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `Puts the template, hooks, checks and driver settings of an earlier revision into the
group's spec and leaves the rest of it alone: size, budgets, routes. It is applied like any
other spec, and rolls by the same rules; a revision that is revoked or below the floor does
not come back.

Without --to it is that of the newest rollout before which got to its end, for all slots or
for all but those that are kept back. An undo is undone by another one where the later revision had got
to its end; where it had not, say with --to whether that one or an earlier one is meant. Say so too
where most slots that would go back never ran it, as after a canary's.

Without --confirm or --yes it only says what would change, and what the leader would do.
The group's file still says the later one: change it too, or its next apply brings it back.`,
		Example: "  cadre rollout undo postgres\n  cadre rollout undo postgres --to 7677a8ea --confirm postgres --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				undo, err := cl.ProposeUndo(cmd.Context(), args[0], to)
				if err != nil {
					return err
				}
				meant := sure.sure(args[0])
				f.dryRun, f.index, f.verb = !meant, undo.Index, "undo"
				if a.output != "json" {
					a.print(fmt.Sprintf("back from revision %s to %s\n", format.Short(undo.From), format.Short(undo.To)) + render.Warnings(a.style(), undo.Warnings))
				}
				if err := a.apply(cmd, cl, f, []groupfile.Group{{Spec: undo.Spec}}); err != nil || meant {
					return err
				}
				return usagef("nothing is changed: repeat with --confirm %s", args[0])
			})
		},
	}
	c.Flags().StringVar(&to, "to", "", "the revision to go back to: its first digits, or its number as #7")
	sure.bind(c, "GROUP")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until every slot proved it and is available; fail with the rollout's reason")
	c.Flags().DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long --wait waits; the rollout goes on after it")
	return c
}
