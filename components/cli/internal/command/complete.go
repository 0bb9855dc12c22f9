package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/client"
)

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeGroup offers group names for the first argument.
func (a *App) completeGroup(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) ([]string, error) {
		groups, err := cl.Groups(ctx)
		names := []string{}
		for _, g := range groups {
			names = append(names, g.GetGroup())
		}
		return names, err
	})
}

// completeSlot offers Slot names for the first argument.
func (a *App) completeSlot(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Instances(ctx, "")
		names := []string{}
		for _, i := range list {
			names = append(names, i.Slot)
		}
		return names, err
	})
}

// ask is quick or silent: a shell waits for it.
func (a *App) ask(cmd *cobra.Command, fn func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	var names []string
	err := a.withClient(func(cl *client.Client) (err error) {
		names, err = fn(ctx, cl)
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError | cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeHCL offers *.hcl files and folders.
func completeHCL(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"hcl"}, cobra.ShellCompDirectiveFilterFileExt
}

var _ completion = completeHCL
