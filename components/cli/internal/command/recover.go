package command

import (
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

func (a *App) recoverCommand() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use: "recover", Short: "Let a cluster go on whose records were restored from a backup", Args: cobra.NoArgs,
		Long: `Coordinators and agents remember how far the records had come. Where the records say
less, they were restored from a backup or edited (EPOCH_REGRESSION): nothing is planned
or called any more, since what was done meanwhile would be done again. What runs goes on.

Without --yes it tells what the records say and what was seen of them. With --yes it
raises Term and state above all of it, and the cluster goes on from the records as they
are. First find out what is gone since the backup and write it again: revocations,
floors, approvals, specs, and CVMs that were made since.`,
		Example: "  cadre recover\n  cadre recover --reason \"backup of Monday was restored\" --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if yes && strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: it stands in the record of what was done")
			}
			return a.withClient(func(cl *client.Client) error {
				found, err := cl.Recover(cmd.Context(), reason, !yes)
				if err != nil {
					return err
				}
				return a.show(found, func(s render.Style) string { return render.Recovery(s, found) })
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record of what was done (required with --yes)")
	c.Flags().BoolVar(&yes, "yes", false, "go on from the records as they are")
	return c
}
