package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/queue"
)

func (a *App) queueCommand() *cobra.Command {
	return &cobra.Command{
		Use: "queue", Short: "List everything that is planned in all groups, in the order in which it goes", Args: cobra.NoArgs,
		Long: `The list begins with the steps in progress. Steps that begin now follow, then steps that wait at
a limit of the cluster alone, by the priority of their group and then by their wait, and last the
steps that something else holds. ` + "`cadre limits`" + ` shows and sets the limits.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Queue(cmd.Context())
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Queue(s, list) })
			})
		},
	}
}

func (a *App) limitsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "limits", Short: "Limit the work in all groups together",
		Long: `A limit bounds the work of all groups together. Work without a place waits, and the group with
the higher priority goes first, then the group that waits longer. Repairs and requests by the name
of an instance do not count and do not wait. A lower limit ends no step that began.`,
	}
	c.AddCommand(a.limitsShow(), a.limitsSet(), a.limitsClear())
	return c
}

func (a *App) limitsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the limits, and how much of them is used", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(cl *client.Client) error {
				now, err := cl.Limits(cmd.Context())
				if err != nil {
					return err
				}
				return a.show(now, func(s render.Style) string { return render.Limits(s, now) })
			})
		},
	}
}

func (a *App) limitsSet() *cobra.Command {
	var l client.Limits
	c := &cobra.Command{
		Use: "set", Short: "Replace the limits; a limit that is left out is removed", Args: cobra.NoArgs,
		Example: "  cadre limits set --steps 2 --rollouts 3 --reason \"two hosts\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			given, problems := false, []string{}
			for _, one := range []struct {
				name  queue.Limit
				value int
			}{{queue.Steps, l.Steps}, {queue.Rollouts, l.Rollouts}, {queue.Creations, l.Creations}} {
				is := cmd.Flags().Changed(string(one.name))
				if given = given || is; is && (one.value < 1 || one.value > queue.Max) {
					problems = append(problems, fmt.Sprintf("--%s %d: use 1 to %d; to stop all work: cadre freeze", one.name, one.value, queue.Max))
				}
			}
			if !given {
				problems = append(problems, "--steps, --rollouts, --creations: set at least one; to remove all limits: cadre limits clear")
			}
			if strings.TrimSpace(l.Reason) == "" {
				problems = append(problems, "--reason: is missing: the record of the limits needs it")
			}
			if len(problems) > 0 {
				return usagef("the limits are not set\n  %s", strings.Join(problems, "\n  "))
			}
			return a.withClient(func(cl *client.Client) error {
				out, err := cl.SetLimits(cmd.Context(), l)
				if err != nil {
					return err
				}
				return a.show(out, func(render.Style) string {
					text := "the limits of the cluster are set: " + render.LimitsText(out)
					if !out.Changed {
						text = "these limits are set already: " + render.LimitsText(out)
					}
					return text + "\n"
				})
			})
		},
	}
	c.Flags().IntVar(&l.Steps, string(queue.Steps), 0, "open steps of rollouts that take an instance away (default no limit)")
	c.Flags().IntVar(&l.Rollouts, string(queue.Rollouts), 0, "groups with a rollout in work (default no limit)")
	c.Flags().IntVar(&l.Creations, string(queue.Creations), 0, "open creations of instances (default no limit)")
	c.Flags().StringVar(&l.Reason, "reason", "", "reason, for the record (required)")
	return c
}

func (a *App) limitsClear() *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "clear", Short: "Remove all limits", Args: cobra.NoArgs,
		Example: "  cadre limits clear --reason \"the hosts are back\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(cl *client.Client) error {
				changed, err := cl.ClearLimits(cmd.Context(), reason)
				if err != nil {
					return err
				}
				return a.show(map[string]bool{"changed": changed}, func(render.Style) string {
					if !changed {
						return "the cluster has no limits: nothing is changed\n"
					}
					return "the limits of the cluster are removed\n"
				})
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, for the record")
	return c
}
