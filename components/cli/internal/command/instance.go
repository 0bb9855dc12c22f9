package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

func (a *App) instanceCommand() *cobra.Command {
	c := &cobra.Command{Use: "instance", Short: "Instances: one CVM per slot"}
	c.AddCommand(a.instanceList(), a.instanceDescribe(), a.instanceRestart(), a.instanceReplace())
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
		Use: "describe SLOT", Short: "Show everything about one slot", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
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

func (a *App) instanceRestart() *cobra.Command {
	var reason string
	var wait waitFlags
	c := &cobra.Command{
		Use: "restart SLOT", Short: "Ask for a restart of one slot, under its group's budget and quorum rules", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Example: "  cadre instance restart postgres-1 --reason \"it leaks\" --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				id, err := cl.Restart(cmd.Context(), args[0], reason)
				if err != nil {
					return err
				}
				if a.output == "json" {
					if err := a.json(map[string]string{"slot": args[0], "request_id": id}); err != nil {
						return err
					}
					return a.waitRequest(cmd.Context(), cl, wait, id, "restart "+args[0])
				}
				a.say(fmt.Sprintf("restart of %s is queued (%s); it is drained first and waits for its turn: `cadre instance describe %s`", args[0], id, args[0]))
				return a.waitRequest(cmd.Context(), cl, wait, id, "restart "+args[0])
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	wait.bind(c, "the slot is available again")
	return c
}
