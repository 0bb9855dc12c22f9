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
		Use: "replace SLOT", Short: "Give a slot a new CVM with a new disk: what its old one had is lost", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `For a slot whose CVM is gone or cannot be saved. What is left of the old CVM is deleted
with its disk; the new one has an empty disk and gets its data from the other members.
The leader does it only while the workload's quorum bears it and the other members have
the data. The old CVM is kept in the slot's lineage and is never admitted again.

What still runs is better off with ` + "`cadre instance restart`" + `, which keeps the disk.

Without --confirm or --yes it only says what would be lost.`,
		Example: "  cadre instance replace postgres-1 --reason \"its host burnt\" --confirm postgres-1 --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: it stands in the slot's lineage")
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
	c.Flags().StringVar(&reason, "reason", "", "why, for the slot's lineage (required)")
	sure.bind(c, "SLOT")
	wait.bind(c, "the new CVM is a member that is available")
	return c
}

func (a *App) rolloutRetry() *cobra.Command {
	var reason string
	var wait waitFlags
	c := &cobra.Command{
		Use: "retry GROUP", Short: "Let go on what a group gave up: a failed rollout, a refused step", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `For a rollout that is FAILED and whose cause is mended: a full host, a missing image, a
platform that was down. Its clocks begin anew, the steps that failed are forgiven, and
it goes on to the revision that it was going to.

So does a step that the platform refused six times in a row (the hold refused), whatever the rollout's state.

This is not ` + "`cadre rollout resume`" + `, which takes back a pause that an operator made and does
nothing about a failure. To go to another revision, apply another spec.`,
		Example: "  cadre rollout retry postgres --reason \"the host has memory again\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: it stands in the rollout's record")
			}
			return a.withClient(func(cl *client.Client) error {
				out, err := cl.Retry(cmd.Context(), args[0], reason)
				if err != nil {
					return err
				}
				if err := a.show(out, func(render.Style) string {
					switch {
					case !out.Changed:
						return fmt.Sprintf("the rollout of %s has not failed (%s), and nothing else waits for a retry: nothing is changed\n", args[0], orNone(out.State))
					case operation.RolloutState(out.State) != operation.FailedState:
						return fmt.Sprintf("what %s gave up is tried again; `cadre rollout plan %s` tells what waits for what\n", args[0], args[0])
					}
					return fmt.Sprintf("rollout %s goes on; watch it with `cadre rollout watch %s`\n", out.Rollout, args[0])
				}); err != nil || !out.Changed || !wait.wait {
					return err
				}
				return a.watch(cmd.Context(), cl, args[0], false, wait.timeout)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "what was mended, for the record (required)")
	wait.bind(c, "the rollout ends")
	return c
}

func orNone(state string) string {
	if state == "" {
		return "there is none yet"
	}
	return state
}
