package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/operation"
)

func (a *App) instanceReplace() *cobra.Command {
	var reason string
	var sure sureFlags
	var wait waitFlags
	c := &cobra.Command{
		Use: "replace INSTANCE", Short: "Give an instance a new CVM with a new disk; the data of the old disk is lost", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `For an instance whose CVM is gone or damaged. The leader deletes the old CVM with its
disk; the new CVM starts with an empty disk and copies its data from the other members.
The leader waits until the workload keeps its quorum and the other members have the data.
The old CVM stays in the slot's lineage and is never admitted again.

Use ` + "`cadre instance restart`" + ` for a CVM that still runs: a restart keeps the disk.

Without --confirm or --yes the command only prints the losses.`,
		Example: "  cadre instance replace postgres-1 --reason \"its host burnt\" --confirm postgres-1 --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: the slot's lineage shows it")
			}
			return a.withClient(func(cl *client.Client) error {
				meant := sure.sure(args[0])
				out, err := cl.Replace(cmd.Context(), args[0], reason, !meant)
				if err != nil {
					return err
				}
				if err := a.unlessSure(out, meant, args[0], func(s render.Style) string { return render.Replacement(s, out) }); err != nil {
					return err
				}
				return a.waitRequest(cmd.Context(), cl, wait, out.RequestID, "replace "+args[0])
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, for the slot's lineage (required)")
	sure.bind(c, "INSTANCE")
	wait.bind(c, "the new CVM is an available member")
	return c
}

func (a *App) rolloutRetry() *cobra.Command {
	var reason string
	var wait waitFlags
	c := &cobra.Command{
		Use: "retry GROUP", Short: "Continue a rollout that FAILED or was ROLLED_BACK, or a step that the platform refused", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: "`retry` continues a rollout that FAILED; `resume` ends a pause that an operator set; `undo`\n" + `goes back to an earlier revision.

Repair the cause first: a full host, a missing image, a platform that was down. The rollout
keeps its target revision, restarts its deadlines and repeats the failed steps. To go to
another revision, apply another spec.

A retry of a rollout that was rolled back (ROLLED_BACK) tries the revision of the spec again. The
rollout is not rolled back a second time. A retry of a rollback that FAILED repeats its steps.

A retry also repeats a step that the platform refused six times in a row (the hold
"refused"), in any state of the rollout.`,
		Example: "  cadre rollout retry postgres --reason \"the host has memory again\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: the rollout's record shows it")
			}
			return a.withClient(func(cl *client.Client) error {
				out, err := cl.Retry(cmd.Context(), args[0], reason)
				if err != nil {
					return err
				}
				if err := a.show(out, func(render.Style) string {
					switch {
					case !out.Changed:
						return fmt.Sprintf("the rollout of %s has neither failed nor been rolled back (%s), and no refused step waits for a retry: nothing is changed\n", args[0], orNone(out.State))
					case !operation.RolloutState(out.State).Failed():
						return fmt.Sprintf("the refused steps of %s are retried; `cadre rollout plan %s` shows the remaining holds\n", args[0], args[0])
					}
					return fmt.Sprintf("rollout %s continues; watch it with `cadre rollout watch %s`\n", out.Rollout, args[0])
				}); err != nil || !out.Changed || !wait.wait {
					return err
				}
				return a.watch(cmd.Context(), cl, args[0], false, wait.timeout)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "the repair, for the record (required)")
	wait.bind(c, "the rollout ends")
	return c
}

func orNone(state string) string {
	if state == "" {
		return "there is none yet"
	}
	return state
}
