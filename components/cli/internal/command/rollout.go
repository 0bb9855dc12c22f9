package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/group"
)

func (a *App) rolloutCommand() *cobra.Command {
	c := &cobra.Command{Use: "rollout", Short: "Rollouts: planned changes, their progress, and the holds on them"}
	c.AddCommand(a.rolloutPlan(), a.rolloutStatus(), a.rolloutWatch(), a.rolloutPause(), a.rolloutResume(), a.rolloutRetry(), a.rolloutPromote(), a.rolloutUndo(), a.rolloutOverride(), a.rolloutHistory())
	return c
}

func (a *App) rolloutPlan() *cobra.Command {
	var f fileFlags
	var file string
	c := &cobra.Command{
		Use: "plan GROUP", Short: "Show the planned action of each instance, or the hold that it waits for", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `Shows the steps in the order in which they go: the action of each instance, and every hold
that it waits for. With -f the command shows the plan as it would be after an apply of
that file, and writes nothing.`,
		Example: "  cadre rollout plan postgres\n  cadre rollout plan postgres -f postgres.hcl --var image=v2",
		RunE: func(cmd *cobra.Command, args []string) error {
			var groups []groupfile.Group
			if file != "" {
				f.only = args[0]
				var err error
				if groups, err = f.read([]string{file}); err != nil {
					return err
				}
			}
			return a.withClient(func(cl *client.Client) error {
				var spec *group.Spec
				if onPlatform(cl.Context(), groups); len(groups) > 0 {
					spec = &groups[0].Spec
				}
				p, err := cl.Plan(cmd.Context(), args[0], spec)
				if err != nil {
					return err
				}
				return a.show(p, func(s render.Style) string { return render.Plan(s, p, a.now()) })
			})
		},
	}
	f.bindVars(c)
	c.Flags().StringVarP(&file, "file", "f", "", "plan for the spec in this file instead of the stored one")
	return c
}

func (a *App) rolloutStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status GROUP", Short: "Show the progress of a rollout", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				v, err := cl.Look(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				overrides, err := cl.Overrides(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(v, func(s render.Style) string {
					return render.Status(s, v, client.StopOf(overrides, args[0]), a.now())
				})
			})
		},
	}
}

func (a *App) rolloutWatch() *cobra.Command {
	var follow bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch GROUP", Short: "Follow a rollout until it ends", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `Redraws a table on a terminal; elsewhere prints one line for each change. The command
ends with the rollout: 0 when the rollout is complete, 5 when it failed, was paused or was
superseded. The command reconnects when a coordinator goes away.`,
		Example: "  cadre rollout watch postgres\n  cadre rollout watch postgres --timeout 30m && echo complete",
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout < 0 {
				return usagef("--timeout %s: want a time such as 30m, or 0 for no end", timeout)
			}
			return a.withClient(func(cl *client.Client) error { return a.watch(cmd.Context(), cl, args[0], follow, timeout) })
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep watching after the rollout has ended")
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long (0: never)")
	return c
}

func (a *App) watch(ctx context.Context, cl *client.Client, name string, follow bool, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	// A status of an older spec does not describe the stored spec (R144).
	stored, err := cl.Group(ctx, name)
	if err != nil {
		return err
	}
	s := a.newScreen()
	s.stream = true
	defer s.end()
	err = cl.Wait(ctx, name, client.WaitOptions{Index: stored.Index, Follow: follow, See: s.see, Lost: s.lost, Tick: s.tick})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return latef("rollout of %s has not ended after %s; the rollout continues", name, timeout)
	case errors.Is(err, context.Canceled):
		return silent{ExitError} // interrupted: the outcome of the rollout is unknown
	}
	return explain(err, name)
}

func (a *App) rolloutPause() *cobra.Command {
	f := overrideFlags{noReason: true}
	c := &cobra.Command{
		Use: "pause GROUP", Short: "Pause the rollout of a group; steps in progress are finished", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: `The leader finishes an instance that is being changed and returns an instance that only
drains to service. Until the pause ends, the leader updates and removes no instance
automatically. Healing, new instances and requests by an instance's name continue: restart,
replace, update and drain. ` + "`cadre freeze`" + ` stops these too.`,
		Example: "  cadre rollout pause postgres --for 2h --reason \"the nightly report runs\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(a.now()); err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				return a.override(cmd.Context(), cl, client.OverridePause, args[0], f, func(until string) string {
					return fmt.Sprintf("rollout of %s is paused %s: an instance that is being changed is finished, and no other one is updated or removed automatically; end the pause with `cadre rollout resume %s`", args[0], until, args[0])
				})
			})
		},
	}
	f.bind(c)
	return c
}

func (a *App) rolloutResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume GROUP", Short: "End a pause that an operator set", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		Long: "`resume` ends a pause that an operator set; `retry` continues a rollout that FAILED; `undo`\ngoes back to an earlier revision.\n\nThe rollout continues where `cadre rollout pause` stopped it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.clearOverride(cmd.Context(), client.OverridePause, args[0],
				fmt.Sprintf("rollout of %s resumes; watch it with `cadre rollout watch %s`", args[0], args[0]), args[0]+" was not paused: nothing is changed")
		},
	}
}

func (a *App) rolloutHistory() *cobra.Command {
	return &cobra.Command{
		Use: "history GROUP", Short: "List a group's rollouts, newest first", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Rollouts(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.History(s, list, a.now()) })
			})
		},
	}
}
