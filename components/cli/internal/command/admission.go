package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/policy"
)

func (a *App) admissionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "admission", Short: "Admission: admitted boots, their evidence, and the admission policy",
		Long: `The holder of each slot, its evidence, and the operators' decisions: approvals of
revisions, revocations, the security floor.

An approval, a revocation and a floor are keys below control/ in Consul KV; these
commands need a token with the right to write them.`,
	}
	c.AddCommand(a.admissionList(), a.admissionExplain(), a.admissionApprove(), a.admissionAppCompose(), a.admissionRevoke(), a.admissionUnrevoke(), a.admissionClearConflict(), a.admissionFloor(), a.admissionTCB())
	return c
}

func (a *App) admissionList() *cobra.Command {
	return &cobra.Command{
		Use: "list [GROUP]", Aliases: []string{"ls"}, Short: "List each slot's boot, revision, evidence and expiry", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `STATE is admitted; re-attest (the boot must show new evidence, which its agent does
automatically); denied (the coordinators will not renew its credentials, for the reason in
WHY); expired; or none. From RE-ATTEST on the coordinators renew no credentials without new
evidence.`,
		Example: "  cadre admission list\n  cadre admission list postgres -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Admissions(cmd.Context(), first(args))
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Admissions(s, list, a.now()) })
			})
		},
	}
}

func (a *App) admissionExplain() *cobra.Command {
	return &cobra.Command{
		Use: "explain SLOT", Short: "Explain why a slot's boot is admitted or not, and list the ways out", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `Shows the checks of the last decision, the verdict on the present evidence under the
present policy, the revisions that the slot may run, the approvals, revocations and floor
that apply, the last decisions, and the next steps.`,
		Example: "  cadre admission explain postgres-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				e, err := cl.ExplainAdmission(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(e, func(s render.Style) string { return render.Explanation(s, e, a.now()) })
			})
		},
	}
}

const revisionHelp = `REVISION is a revision, its first digits (as tables show it), its compose hash, or
GROUP#7 for the seventh revision of a group.`

func (a *App) admissionApprove() *cobra.Command {
	var note, group string
	var withdraw bool
	c := &cobra.Command{
		Use: "approve REVISION", Short: "Approve a revision for rollout", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeTarget,
		Long: `Approves a revision of a group with update_policy { require_approval = true }. Its
compose file must name each image by digest, and contain no variable that decides about the
code; otherwise the coordinators reject the approval with IMAGE_NOT_PINNED.

An approval covers the revision with one compose hash, which the command prints; "cadre
admission app-compose" shows the document of that hash. The revision with another hash needs
another approval.

` + revisionHelp,
		Example: "  cadre admission approve 1a2b3c4d --note \"reviewed in CHG-1234\"\n  cadre admission approve postgres#7",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				done, err := cl.Approve(cmd.Context(), args[0], group, note, withdraw)
				if err != nil {
					return err
				}
				return a.show(done, func(s render.Style) string { return approvalText(s, done, withdraw) })
			})
		},
	}
	c.Flags().StringVar(&note, "note", "", "the reviewed content, for the record")
	c.Flags().StringVar(&group, "group", "", "group of the revision, where several have it")
	c.Flags().BoolVar(&withdraw, "withdraw", false, "withdraw the approval: running instances keep their credentials until these expire")
	completeOr(c.RegisterFlagCompletionFunc("group", a.completeGroup))
	return c
}

func (a *App) admissionAppCompose() *cobra.Command {
	var group string
	c := &cobra.Command{
		Use: "app-compose REVISION", Short: "Print the app-compose.json that a revision is measured with", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeTarget,
		Long: `Prints the document that was judged before its hash was allowed for any slot, byte by
byte: the SHA-256 of the output is the compose hash. Until a platform has answered for the
revision, the output is the document that Cadre would send.

` + revisionHelp,
		Example: "  cadre admission app-compose postgres#7 | jq .\n  cadre admission app-compose 1a2b3c4d > app-compose.json && cadre compose lint app-compose.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				got, err := cl.AppCompose(cmd.Context(), args[0], group)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.json(got)
				}
				a.print(got.Text) // these bytes and no others: they are hashed
				return nil
			})
		},
	}
	c.Flags().StringVar(&group, "group", "", "group of the revision, where several have it")
	completeOr(c.RegisterFlagCompletionFunc("group", a.completeGroup))
	return c
}

func approvalText(s render.Style, done client.Approval, withdrawn bool) string {
	name := fmt.Sprintf("revision %s of group %s", render.Number(done.Revision, done.Number), done.Group)
	text := name + " is approved as compose hash " + done.ComposeHash + "; the rollout continues automatically: `cadre rollout watch " + done.Group + "`\n"
	switch {
	case withdrawn && done.Changed:
		text = "the approval of " + name + " is taken back: no boot of it is admitted any more\n"
	case withdrawn:
		text = name + " was not approved: nothing is changed\n"
	case !done.Changed:
		text = name + " was approved already\n"
	}
	return text + render.Warnings(s, done.Warnings)
}

// revocations by their names on the command line.
var revocationWords = map[string]policy.RevocationKind{
	"instance": policy.RevokedInstance, "revision": policy.RevokedRevision, "key-provider": policy.RevokedKeyProvider,
}

const revocationHelp = `
  instance      ID is an instance id, or the slot that it fills
  revision      ID is a revision, its first digits, its compose hash, or GROUP#7
  key-provider  ID is the id of a key provider`

func (a *App) admissionRevoke() *cobra.Command {
	var reason, confirm string
	c := &cobra.Command{
		Use: "revoke instance|revision|key-provider ID", Short: "Revoke an instance, a revision or a key provider, at once", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeRevocation,
		Long: `Every coordinator refuses admission and renewal at once, also without a leader. The leader
revokes the tokens and ends the sessions of the boots that hold a slot.
` + revocationHelp + `

Without --confirm the command only lists the boots that would be evicted.`,
		Example: "  cadre admission revoke instance postgres-1 --reason \"disk image leaked\" --confirm postgres-1\n  cadre admission revoke revision postgres#4 --reason CVE-2026-1 --confirm postgres#4",
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, ok := revocationWords[args[0]]
			switch {
			case !ok:
				return usagef("%q cannot be revoked: use instance, revision or key-provider", args[0])
			case strings.TrimSpace(reason) == "":
				return usagef("--reason is missing: the revocation shows it")
			}
			act := func(ctx context.Context, cl *client.Client, dryRun bool) (client.CutOff, error) {
				return cl.Revoke(ctx, kind, args[1], reason, dryRun)
			}
			return a.cutOff(cmd.Context(), args[1], confirm, act, func(done client.CutOff) string {
				if !done.Changed {
					return fmt.Sprintf("%s %s was revoked already", args[0], done.ID)
				}
				return fmt.Sprintf("%s %s is revoked; take it back with `cadre admission unrevoke %s %s`", args[0], done.ID, args[0], done.ID)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, which the revocation shows (required)")
	c.Flags().StringVar(&confirm, "confirm", "", "ID once more, to say that you mean it")
	return c
}

func (a *App) admissionUnrevoke() *cobra.Command {
	return &cobra.Command{
		Use: "unrevoke instance|revision|key-provider ID", Short: "Remove a revocation", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeRevocation,
		Long: `An evicted boot must attest again to be admitted, which its agent does automatically.
` + revocationHelp,
		Example: "  cadre admission unrevoke instance postgres-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, ok := revocationWords[args[0]]
			if !ok {
				return usagef("%q cannot be revoked: use instance, revision or key-provider", args[0])
			}
			return a.withClient(func(cl *client.Client) error {
				id, changed, err := cl.Unrevoke(cmd.Context(), kind, args[1])
				if err != nil {
					return err
				}
				return a.show(map[string]any{"kind": kind, "id": id, "changed": changed}, func(render.Style) string {
					if !changed {
						return fmt.Sprintf("%s %s was not revoked: nothing is changed\n", args[0], id)
					}
					return fmt.Sprintf("%s %s is not revoked any more\n", args[0], id)
				})
			})
		},
	}
}

func (a *App) admissionClearConflict() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "clear-conflict SLOT", Short: "End a boot conflict, so that another boot can take the slot again", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `Two boots of one instance, copies of one CVM, can take a slot from each other. Cadre then
reserves the slot for the present boot (INSTANCE_CONFLICT). Have the other copy destroyed
before you clear the conflict. While both copies run, the slot changes hands again and
Cadre reserves it again. A restart by Cadre (` + "`cadre instance restart`" + `) also clears the
conflict.`,
		Example: "  cadre admission clear-conflict postgres-1 --reason \"copy on host 7 was destroyed\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: the slot's decisions show it")
			}
			return a.withClient(func(cl *client.Client) error {
				changed, err := cl.ReleaseSlot(cmd.Context(), args[0], reason)
				if err != nil {
					return err
				}
				return a.show(map[string]any{"slot": args[0], "changed": changed}, func(render.Style) string {
					if !changed {
						return fmt.Sprintf("%s has no boot conflict: nothing is changed\n", args[0])
					}
					return fmt.Sprintf("the boot conflict of %s is cleared; `cadre admission explain %s` shows it within moments\n", args[0], args[0])
				})
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, for the slot's decisions (required)")
	return c
}

func (a *App) admissionFloor() *cobra.Command {
	var reason, confirm, before string
	var all bool
	c := &cobra.Command{
		Use: "floor GROUP REVISION|#N", Short: "Refuse every revision older than one, permanently", Args: cobra.MaximumNArgs(2), ValidArgsFunction: a.completeGroup,
		Long: `Raises the security floor of a group. Older revisions, and revisions with the same
measurement as an older one, are not admitted, are evicted where they run, and cannot be
rolled out. A floor never falls: this command rejects a lower one, and a lower one in the KV
store has no effect.

--all --before TIME covers every group: content that the cluster first saw before then.

Without --confirm the command only lists the boots that would be evicted.`,
		Example: "  cadre admission floor postgres '#7' --reason CVE-2026-1 --confirm postgres\n  cadre admission floor --all --before 2026-05-01T00:00:00Z --reason \"leaked signing key\" --confirm all",
		RunE: func(cmd *cobra.Command, args []string) error {
			var at time.Time
			want := first(args)
			switch {
			case all && (len(args) > 0 || before == ""):
				return usagef("--all needs --before TIME and no group")
			case all:
				want = "all"
			case len(args) != 2 || before != "":
				return usagef("want a group and the oldest revision that may still run; see `cadre admission floor --help`")
			}
			if before != "" {
				var err error
				if at, err = time.Parse(time.RFC3339, before); err != nil {
					return usagef("--before %s: want a time such as 2026-05-01T00:00:00Z", before)
				}
			}
			group, revision := first(args), ""
			if len(args) == 2 {
				revision = args[1]
			}
			act := func(ctx context.Context, cl *client.Client, dryRun bool) (client.CutOff, error) {
				return cl.RaiseFloor(ctx, group, revision, at, reason, dryRun)
			}
			return a.cutOff(cmd.Context(), want, confirm, act, func(done client.CutOff) string {
				where := "of every group"
				if group != "" {
					where = "of group " + group
				}
				switch {
				case !done.Changed:
					return "the floor " + where + " was there already"
				case done.Number > 0:
					return fmt.Sprintf("the floor %s is at revision %s", where, render.Number(done.Revision, done.Number))
				}
				return fmt.Sprintf("the floor %s is at what was first seen at %s", where, before)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "reason, for the record")
	c.Flags().StringVar(&confirm, "confirm", "", "GROUP once more (all with --all), to say that you mean it")
	c.Flags().BoolVar(&all, "all", false, "every group, with --before")
	c.Flags().StringVar(&before, "before", "", "with --all: content first seen before this time is shut out")
	return c
}

// cutOff revokes or raises a floor, once the operator has confirmed it by name. Without that it
// prints the effect and exits with wrong usage.
func (a *App) cutOff(ctx context.Context, want, confirm string, act func(context.Context, *client.Client, bool) (client.CutOff, error), done func(client.CutOff) string) error {
	return a.withClient(func(cl *client.Client) error {
		sure := confirm == want
		out, err := act(ctx, cl, !sure)
		if err != nil {
			return err
		}
		if err := a.show(out, func(s render.Style) string {
			if !sure {
				return render.CutOff(s, out)
			}
			return done(out) + "\n" + render.CutOff(s, out)
		}); err != nil {
			return err
		}
		if !sure {
			return usagef("nothing is changed: repeat with --confirm %s", want)
		}
		return nil
	})
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// completeTarget offers the Revisions that groups are to run.
func (a *App) completeTarget(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) ([]string, error) {
		groups, err := cl.Groups(ctx)
		targets := []string{}
		for _, g := range groups {
			if g.GetTargetRevision() != "" {
				targets = append(targets, format.Short(g.GetTargetRevision())+"\tof "+g.GetGroup())
			}
		}
		return targets, err
	})
}

// completeRevocation offers the kinds, then the known ids of one.
func (a *App) completeRevocation(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"instance", "revision", "key-provider"}, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && args[0] == "instance":
		return a.completeSlot(cmd, nil, word)
	case len(args) == 1 && args[0] == "revision":
		return a.completeTarget(cmd, nil, word)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
