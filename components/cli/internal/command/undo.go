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
		Use: "undo GROUP", Short: "Go back to an earlier revision", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: "`undo` goes back to an earlier revision; `retry` continues a rollout that FAILED; `resume`\n" + `ends a pause that an operator set.

An undo puts the template, hooks, checks and driver settings of the earlier revision into
the group's spec. Size, budgets and routes stay. The leader rolls the new spec out like any
other one. The command rejects a revision that is revoked or below the floor.

Without --to the command takes the revision of the newest earlier rollout that completed.
Instances that the rollout kept back do not count. Name the revision with --to in two cases:
to undo an undo whose later revision had not completed, and when most instances never ran
the earlier revision, for example after a canary.

Without --confirm or --yes the command only prints the change and the leader's plan. Change
the group's file too: its next apply otherwise brings the later revision back.`,
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
	c.Flags().DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long --wait waits; the rollout continues after it")
	return c
}
