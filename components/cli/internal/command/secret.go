package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

// gossip is the one key of the cluster itself that can be rotated.
const (
	clusterGroup = "cluster"
	gossip       = "gossip"
)

func (a *App) secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "secret", Short: "Secrets: which epoch is in force, and a new one; never a value",
		Long: "Secrets are declared in a group's file with secret \"name\" { }. The coordinators make the value,\nor with source = \"operator\" an operator gives it by `cadre secret set`. The workload reads\n/run/mesh/secrets/<name>. No command shows a value.",
	}
	c.AddCommand(a.secretList(), a.secretRotate(), a.secretSet())
	return c
}

func (a *App) secretList() *cobra.Command {
	return &cobra.Command{
		Use: "list [GROUP]", Aliases: []string{"ls"}, Short: "List secrets with epoch, age, owner and next rotation", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Secrets(cmd.Context(), name)
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Secrets(s, list, a.now()) })
			})
		},
	}
}

func (a *App) secretRotate() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "rotate GROUP/NAME|gossip", Short: "Ask for a new value of a secret, or for a new gossip key", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSecret,
		Long: "Asks the leader to raise the epoch of a secret. Agents renew at once and replace the file;\n" +
			"the workload itself applies the new value (docs/guides/secrets.md): a\nPostgreSQL password, for one, is not changed in the database by this.",
		Example: "  cadre secret rotate web/session-key --reason \"it was in a screenshot\"\n  cadre secret rotate gossip",
		RunE: func(cmd *cobra.Command, args []string) error {
			groupName, name, both := strings.Cut(args[0], "/")
			switch {
			case args[0] == gossip:
				groupName, name = clusterGroup, gossip
			case !both || groupName == "" || name == "":
				return usagef("%q names no secret: write GROUP/NAME, as `cadre secret list` does, or gossip", args[0])
			}
			return a.withClient(func(cl *client.Client) error {
				epoch, err := cl.RotateSecret(cmd.Context(), groupName, name, reason)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.json(map[string]any{"group": groupName, "name": name, "epoch": epoch})
				}
				a.say(fmt.Sprintf("rotation of %s/%s is asked for; epoch %d is in force until then: `cadre secret list %s`", groupName, name, epoch, groupName))
				return nil
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, for the record")
	return c
}

func (a *App) completeSecret(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Secrets(ctx, "")
		out := []string{}
		for _, s := range list {
			if s.Group == clusterGroup {
				out = append(out, s.Name)
			} else {
				out = append(out, s.Group+"/"+s.Name)
			}
		}
		return out, err
	})
}
