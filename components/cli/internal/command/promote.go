package command

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

func (a *App) rolloutPromote() *cobra.Command {
	var reason string
	var wait waitFlags
	c := &cobra.Command{
		Use: "promote GROUP", Short: "Open the next stage of a rollout", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: "`promote` opens the next stage of a rollout whose stage has `promote = \"ask\"` in the group\n" + `file and has baked. The next slots are updated then. A stage that still bakes is not promoted: the
bake is the time in which a failing slot stops the rollout.

A gate on "promote" that is closed still holds the next stage: "cadre gate open" opens it.`,
		Example: "  cadre rollout promote postgres --reason \"latencies are as before\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				out, err := cl.Promote(cmd.Context(), args[0], reason)
				if err != nil {
					return err
				}
				if err := a.show(out, func(render.Style) string {
					if !out.Changed {
						return fmt.Sprintf("nothing of %s is promoted: %s\n", args[0], cmp.Or(out.Message, "no stage is open"))
					}
					text := fmt.Sprintf("stage %d of %d of rollout %s is promoted", out.Stage, out.Stages, out.Rollout)
					if out.Gates != "" {
						text += "; it still waits: " + out.Gates
					}
					return fmt.Sprintf("%s; watch it with `cadre rollout watch %s`\n", text, args[0])
				}); err != nil || !out.Changed || !wait.wait {
					return err
				}
				return a.watch(cmd.Context(), cl, args[0], false, wait.timeout)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why the stage may go on, for the record")
	wait.bind(c, "the rollout ends")
	return c
}
