package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/rollout"
)

// rolloutOverride passes one named hold of a group.
func (a *App) rolloutOverride() *cobra.Command {
	r := rollout.HoldOverrideRequest{}
	clearIt := false
	c := &cobra.Command{
		Use: "override GROUP HOLD", Short: "Let the steps of a group pass one named hold for a time", Args: cobra.ExactArgs(2),
		Long: `The holds of a group are in ` + "`cadre rollout plan`" + `. The override belongs to the rollout that is not over
yet, and ends with it, at the end of --for, or by --clear. The plan, each operation that passed
the hold, and the audit chain show it.

A hold about a quorum, copies of data or all members at once needs --confirm with the name of
the group. Holds of admission and of identity cannot be overridden.

Holds that can be: ` + wrapped(rollout.Overridable()) + `.`,
		Example: "  cadre rollout override postgres outside_window --for 1h --reason \"the fix of CVE-2026-1\"\n  cadre rollout override postgres outside_window --clear",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return rollout.Overridable(), cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeGroup(cmd, args, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Group, r.Hold = args[0], args[1]
			name := r.Group + "/" + r.Hold
			if clearIt {
				if r.Reason != "" || r.For != 0 || r.Confirm != "" {
					return usagef("--clear ends the override: leave --reason, --for and --confirm out")
				}
				return a.clearOverride(cmd.Context(), client.OverrideHold, name, fmt.Sprintf("%s holds the steps of %s again", r.Hold, r.Group), r.Hold+" of "+r.Group+" was not overridden: nothing is changed")
			}
			if problems := r.Problems(); len(problems) > 0 {
				lines := make([]string, 0, len(problems))
				for _, p := range problems {
					lines = append(lines, p.String())
				}
				return usagef("nothing is overridden\n  %s", strings.Join(lines, "\n  "))
			}
			return a.withClient(func(cl *client.Client) error {
				out, err := cl.SetHoldOverride(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.show(out, func(render.Style) string { return overrodeText(r, out) })
			})
		},
	}
	c.Flags().DurationVar(&r.For, "for", 0, "how long it lasts, at most 24h (required)")
	c.Flags().StringVar(&r.Reason, "reason", "", "reason, which the plan, the operations and the audit chain show (required)")
	c.Flags().StringVar(&r.Confirm, "confirm", "", "GROUP once more, for a hold with a risk")
	c.Flags().BoolVar(&clearIt, "clear", false, "end the override")
	return c
}

func overrodeText(r rollout.HoldOverrideRequest, out client.Override) string {
	of := "no rollout runs, so the override ends with the begin of the next one"
	if out.Rollout != "" {
		of = "the override ends with rollout " + out.Rollout
	}
	return fmt.Sprintf("%s does not hold the steps of %s until %s; %s; end it with `cadre rollout override %s %s --clear`\n",
		r.Hold, r.Group, out.Until.Local().Format("2006-01-02 15:04:05"), of, r.Group, r.Hold)
}

// wrapped joins words to lines of at most 90 characters, after a first line that is begun.
func wrapped(words []string) string {
	var b strings.Builder
	at := len("Holds that can be: ")
	for i, word := range words {
		switch {
		case i == 0:
		case at+len(word)+3 > 90:
			b.WriteString(",\n")
			at = 0
		default:
			b.WriteString(", ")
			at += 2
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}
