package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/operation"
)

func (a *App) operationCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "operation", Aliases: []string{"op"}, Short: "Operations: the steps of instances, their progress and their requesters",
		Long: `An operation is one step of one instance: a creation, an update, a restart, a
replacement, a deletion. The leader records it before it acts, so that the next leader
continues from the record.`,
	}
	c.AddCommand(a.operationList(), a.operationShow(), a.operationRequests(), a.operationCancel(), a.operationMark(markSucceeded), a.operationMark(markFailed))
	return c
}

func (a *App) operationList() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "list [GROUP]", Aliases: []string{"ls"}, Short: "List open operations, newest first", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Example: "  cadre operation list\n  cadre operation list postgres --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Operations(cmd.Context(), first(args), all)
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Operations(s, list, a.now()) })
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also ended operations that are kept")
	return c
}

func (a *App) operationRequests() *cobra.Command {
	return &cobra.Command{
		Use: "requests [GROUP]", Short: "List requests that have not begun, oldest first", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `A requested restart or replacement of an instance waits here until its holds end: a
quorum, a budget, a drain, a freeze. ` + "`cadre rollout plan GROUP`" + ` shows the holds. The leader drops
a request whose CVM is gone or was replaced.`,
		Example: "  cadre operation requests\n  cadre operation requests postgres",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Requests(cmd.Context(), first(args))
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Requests(s, list, a.now()) })
			})
		},
	}
}

func (a *App) operationCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel REQUEST", Short: "Cancel a request that has not begun", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRequest,
		Long: `REQUEST is an id of ` + "`cadre operation requests`" + `, or a prefix with at least four of its digits.
An operation that has begun continues: an interrupted step is less safe than a finished one.`,
		Example: "  cadre operation cancel restart-0f3a",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				changed, err := cl.CancelRequest(cmd.Context(), args[0])
				switch {
				case err != nil:
					return err
				case !changed:
					return &client.Error{Kind: client.NotFound, Doing: "cancel request " + args[0], Message: "no waiting request has this id, or this prefix with four digits or more: nothing is changed",
						Hint: "`cadre operation requests` lists the waiting ones"}
				}
				return a.show(map[string]any{"request_id": args[0], "changed": true}, func(render.Style) string {
					return fmt.Sprintf("request %s is cancelled\n", args[0])
				})
			})
		},
	}
}

func (a *App) operationShow() *cobra.Command {
	return &cobra.Command{
		Use: "show OPERATION", Short: "Show one operation: phases, calls, parts, deadlines, reason", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeOperation,
		Long:    "OPERATION is the id of an operation or of its request, or a prefix of one.",
		Example: "  cadre operation show postgres-4-1a2b3c4d.2.postgres-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				o, err := cl.Operation(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(o, func(s render.Style) string { return render.Operation(s, o, a.now()) })
			})
		},
	}
}

// operationMark is a command with which an operator records the effect of a platform call.
type operationMark struct {
	verb, as, short, means, reason string
}

var (
	markSucceeded = operationMark{
		verb: "mark-succeeded", as: "done", short: "Record that an undecided platform call took effect",
		means:  "The operation continues and waits for the new boot, as after a call that the platform\nconfirmed.",
		reason: "the console shows the new boot",
	}
	markFailed = operationMark{
		verb: "mark-failed", as: "failed", short: "Record that an undecided platform call had no effect and will have none",
		means:  "The operation fails. The leader plans the step again while the group still needs it.",
		reason: "no trace of it in the console",
	}
)

func (a *App) operationMark(m operationMark) *cobra.Command {
	var reason string
	var f sureFlags
	c := &cobra.Command{
		Use: m.verb + " OPERATION", Short: m.short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeOperation,
		Long: m.short + `.

` + m.means + `

An operation in ACTING needs this when the platform did not answer its call and the
leader cannot read back the effect ("platform_result_unknown"). Until then its instance
waits and counts as unavailable. Look at the CVM on the platform first.

Without --confirm or --yes the command only prints the effect of the mark.`,
		Example: "  cadre operation " + m.verb + " postgres-4-1a2b3c4d.2.postgres-1 --reason \"" + m.reason + "\" --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason is missing: the record of the operation shows it")
			}
			return a.withClient(func(cl *client.Client) error {
				out, err := cl.Resolve(cmd.Context(), args[0], m.as, reason, true)
				if err != nil {
					return err
				}
				sure := f.sure(out.Operation.Slot)
				if sure {
					if out, err = cl.Resolve(cmd.Context(), out.Operation.ID, m.as, reason, false); err != nil {
						return err
					}
				}
				return a.unlessSure(out, sure, out.Operation.Slot, func(s render.Style) string { return render.Resolved(s, out) })
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "your observation, for the record (required)")
	f.bind(c, "the INSTANCE")
	return c
}

// sureFlags are the operator's confirmation.
type sureFlags struct {
	confirm string
	// each are the names where several things may be meant.
	each []string
	yes  bool
}

func (f *sureFlags) bind(c *cobra.Command, what string) {
	c.Flags().StringVar(&f.confirm, "confirm", "", what+" once more, to say that you mean it")
	f.bindYes(c)
}

func (f *sureFlags) bindEach(c *cobra.Command, what string) {
	c.Flags().StringSliceVar(&f.each, "confirm", nil, what+" once more, to say that you mean it; may be repeated")
	f.bindYes(c)
}

func (f *sureFlags) bindYes(c *cobra.Command) {
	c.Flags().BoolVar(&f.yes, "yes", false, "do not ask for --confirm; for scripts")
}

func (f *sureFlags) sure(want string) bool {
	return f.yes || f.confirm == want || slices.Contains(f.each, want)
}

// unlessSure prints the result, or the planned effect and how to confirm it.
func (a *App) unlessSure(data any, sure bool, want string, picture func(render.Style) string) error {
	if err := a.show(data, picture); err != nil || sure {
		return err
	}
	return usagef("nothing is changed: repeat with --confirm %s", want)
}

// waitFlags are the flags of commands that request long work from the leader.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (f *waitFlags) bind(c *cobra.Command, what string) {
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until "+what+"; fail with the reason")
	c.Flags().DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long --wait waits; the operation continues after it")
}

// waitRequest waits for the Operation that carries out a request and prints each phase.
func (a *App) waitRequest(ctx context.Context, cl *client.Client, f waitFlags, id, doing string) error {
	if !f.wait {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	last := ""
	tell := func(text string) {
		if text != last && a.output != "json" {
			fmt.Fprintf(a.Out, "%s  %s\n", a.now().Format("15:04:05"), text)
		}
		last = text
	}
	err := cl.WaitRequest(ctx, id, func(o client.Operation) { tell(render.OperationLine(o)) }, func(err error) {
		text, _, _ := strings.Cut(err.Error(), "\n")
		tell("no coordinator answers, still trying: " + text)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return latef("%s: not done after %s; the operation continues, see `cadre operation show %s`", doing, f.timeout, id)
	}
	return err
}

// completeOperation offers the ids of open operations.
func (a *App) completeOperation(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Operations(ctx, "", false)
		ids := []string{}
		for _, o := range list {
			ids = append(ids, o.ID+"\t"+operationWord(o))
		}
		return ids, err
	})
}

// completeRequest offers the ids of waiting requests.
func (a *App) completeRequest(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Requests(ctx, "")
		ids := []string{}
		for _, q := range list {
			ids = append(ids, q.ID+"\t"+q.Kind+" of "+cmp.Or(q.Slot, q.Operation, q.Group))
		}
		return ids, err
	})
}

func operationWord(o operation.Operation) string {
	return fmt.Sprintf("%s of %s", strings.ToLower(string(o.Kind)), o.Slot)
}
