package command

import (
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

func (a *App) clusterAcceptRestore() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use: "accept-restore", Short: "Resume a cluster whose records were restored from a backup", Args: cobra.NoArgs,
		Long: `Coordinators and agents remember the highest Term and state of the records. A restored
backup, or an edit, sets the records back below that (EPOCH_REGRESSION). The coordinators
then halt: they plan nothing and make no platform call, because a call made since the
backup would be repeated. Running workloads keep running.

Without --yes the command prints the Term and state of the records and the highest ones
seen. With --yes it raises Term and state above the highest ones seen, and the cluster
resumes from the present records. First repeat the changes that the backup lacks: revocations,
floors, approvals, specs, and CVMs created since.`,
		Example: "  cadre cluster accept-restore\n  cadre cluster accept-restore --reason \"backup of Monday was restored\" --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if yes && strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: the record of the recovery shows it")
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
	c.Flags().StringVar(&reason, "reason", "", "reason, for the record (required with --yes)")
	c.Flags().BoolVar(&yes, "yes", false, "resume from the present records")
	return c
}
