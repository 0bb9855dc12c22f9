package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

func (a *App) admissionTCB() *cobra.Command {
	c := &cobra.Command{
		Use: "tcb", Short: "Machines: exceptions for a while, and older collateral",
		Long: `Lets machines in for a while that Intel calls something else than UpToDate, without a
rollout. The measured trust file says how far that goes (tcb.operator_exceptions); without
it nothing can be granted. Members are judged by it, coordinators are not.

An exception is a key below control/tcb-exceptions/ in Consul KV, written with your own
token. It counts when the leader has put it into the chain that "list" shows.`,
	}
	c.AddCommand(a.tcbList(), a.tcbGrant(), a.tcbRevoke(), a.tcbLower())
	return c
}

func (a *App) tcbList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List exceptions, the accepted collateral, and the operators' decisions", Args: cobra.NoArgs,
		Example: "  cadre admission tcb list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(cl *client.Client) error {
				got, err := cl.TCB(cmd.Context())
				if err != nil {
					return err
				}
				return a.show(got, func(s render.Style) string { return render.TCB(s, got, a.now()) })
			})
		},
	}
}

func (a *App) tcbGrant() *cobra.Command {
	var advisories []string
	var fmspc, reason string
	var length time.Duration
	c := &cobra.Command{
		Use: "grant STATUS", Short: "Tolerate machines in one state for a while", Args: cobra.ExactArgs(1),
		Long: `STATUS is in Intel's words: OutOfDate, SWHardeningNeeded, ConfigurationNeeded,
ConfigurationAndSWHardeningNeeded or OutOfDateConfigurationNeeded. Name every advisory that
the machines have ("cadre admission explain SLOT" shows them): a machine with another one is
refused. Revoked machines are never let in.`,
		Example: "  cadre admission tcb grant OutOfDate --advisory INTEL-SA-01397 --for 240h --reason \"firmware comes on Friday\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case strings.TrimSpace(reason) == "":
				return usagef("--reason is missing: the chain of decisions shows it")
			case length <= 0:
				return usagef("--for is missing: an exception must end, for example --for 240h")
			}
			return a.withClient(func(cl *client.Client) error {
				id, until, err := cl.GrantTCB(cmd.Context(), args[0], advisories, fmspc, length, reason)
				if err != nil {
					return err
				}
				return a.show(map[string]any{"id": id, "until": until}, func(render.Style) string {
					return fmt.Sprintf("exception %s is granted until %s; `cadre admission tcb list` shows it in force within moments, `cadre admission tcb revoke %s` takes it back\n",
						id, until.UTC().Format(time.RFC3339), id)
				})
			})
		},
	}
	c.Flags().StringArrayVar(&advisories, "advisory", nil, "an advisory that the machines have; may be repeated")
	c.Flags().StringVar(&fmspc, "fmspc", "", "the family of machines, 12 hex digits; any when it is left out")
	c.Flags().DurationVar(&length, "for", 0, "how long it lasts (required)")
	c.Flags().StringVar(&reason, "reason", "", "reason, for the chain (required)")
	return c
}

func (a *App) tcbRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Take an exception back", Args: cobra.ExactArgs(1),
		Long:    "Members that need it are not renewed any more: they end when their credentials do, within 75 minutes.",
		Example: "  cadre admission tcb revoke tcb-4mq2x7ab3cde",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				changed, err := cl.RevokeTCB(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(map[string]any{"id": args[0], "changed": changed}, func(render.Style) string {
					if !changed {
						return fmt.Sprintf("there is no exception %s: nothing is changed\n", args[0])
					}
					return fmt.Sprintf("exception %s is taken back\n", args[0])
				})
			})
		},
	}
}

func (a *App) tcbLower() *cobra.Command {
	var reason string
	var evaluation uint32
	c := &cobra.Command{
		Use: "lower-collateral FMSPC", Short: "Let older collateral of a family be used again", Args: cobra.ExactArgs(1),
		Long: `Ends COLLATERAL_ROLLBACK where the collateral service was put back on purpose. Documents
from --evaluation on are accepted until the newer one that was seen has ended, 30 days at
most. An older document may hide what became known since: have the service refreshed or
import the newer bundle where you can.`,
		Example: "  cadre admission tcb lower-collateral b0c06f000000 --evaluation 19 --reason \"the cache was restored\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case strings.TrimSpace(reason) == "":
				return usagef("--reason is missing: the chain of decisions shows it")
			case evaluation == 0:
				return usagef("--evaluation is missing: name the lowest accepted number; `cadre admission tcb list` has the present one")
			}
			return a.withClient(func(cl *client.Client) error {
				changed, err := cl.LowerCollateral(cmd.Context(), args[0], evaluation, reason)
				if err != nil {
					return err
				}
				return a.show(map[string]any{"fmspc": args[0], "evaluation": evaluation, "changed": changed}, func(render.Style) string {
					if !changed {
						return fmt.Sprintf("evaluation %d of family %s is accepted already, or asked for: nothing is changed\n", evaluation, args[0])
					}
					return fmt.Sprintf("evaluation %d of family %s is accepted within moments; `cadre admission tcb list` says until when\n", evaluation, args[0])
				})
			})
		},
	}
	c.Flags().Uint32Var(&evaluation, "evaluation", 0, "the lowest tcbEvaluationDataNumber that is accepted (required)")
	c.Flags().StringVar(&reason, "reason", "", "reason, for the chain (required)")
	return c
}
