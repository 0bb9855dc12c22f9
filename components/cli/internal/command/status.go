package command

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/policy"
)

func (a *App) statusCommand() *cobra.Command {
	var watch bool
	var every time.Duration
	c := &cobra.Command{
		Use: "status", Short: "Show the whole cluster on one screen, and whether a person is needed", Args: cobra.NoArgs,
		Long: `Asks every coordinator and the platform, and shows findings first: each
finding has a severity, an object and a command that leads on. Then come coordinators, groups, slots
that are not available, operations, holds, overrides, and the next dates on which something ends.

  page    a person is needed now
  ticket  a person is needed during the day
  note    no person is needed

Ends with 7 if a finding is a page or a ticket, and with 0 if none is. If no coordinator answers, it
shows the platform's report and ends with the code of that error. --watch repeats the
questions until it is interrupted; then each coordinator proves itself once only.`,
		Example: `  cadre status
  cadre status -o json | jq -r '.findings[] | select(.severity == "page") | .text'
  cadre status --watch`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < time.Second {
				return usagef("--every %s: want 1s or more", every)
			}
			if !watch {
				r, err := a.assess(cmd.Context(), true)
				return errors.Join(err, a.showOverview(r, err))
			}
			return a.watchOverview(cmd.Context(), every)
		},
	}
	c.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again")
	c.Flags().DurationVar(&every, "every", 5*time.Second, "pause between two looks of --watch")
	return c
}

// assess looks at the context's cluster. With an error of the coordinators the report is still valid;
// its cluster is empty if there is no context.
func (a *App) assess(ctx context.Context, prove bool) (overview.Report, error) {
	c, _, err := a.load()
	if err != nil {
		return overview.Report{}, err
	}
	facts, err := a.look(ctx, c, prove)
	return overview.Assess(facts), err
}

// showOverview prints a report; the error carries the exit code.
func (a *App) showOverview(r overview.Report, asked error) error {
	if r.Cluster == "" {
		return nil
	}
	if err := a.show(r, func(s render.Style) string { return render.Overview(s, r) }); err != nil {
		return err
	}
	if r.NeedsPerson && asked == nil {
		return silent{ExitNeedsPerson}
	}
	return nil
}

// looker returns a function for repeated looks at a cluster, safe for concurrent use. The coordinators prove themselves until a
// look in which each of them did.
func (a *App) looker(c client.Context) func(context.Context) (overview.Report, error) {
	var mu sync.Mutex
	var machines []policy.AdmissionStatus // of the last proofs
	proved := false
	return func(ctx context.Context) (overview.Report, error) {
		mu.Lock()
		defer mu.Unlock()
		facts, err := a.look(ctx, c, !proved)
		if !proved {
			machines = facts.Machines
			lacks := func(one overview.Coordinator) bool { return one.Problem != "" }
			proved = err == nil && ctx.Err() == nil && !slices.ContainsFunc(facts.Coordinators, lacks)
		}
		facts.Machines = machines
		return overview.Assess(facts), err
	}
}

// watchOverview shows reports until ctx ends: on a terminal each in the place of the one before.
func (a *App) watchOverview(ctx context.Context, every time.Duration) error {
	_, live := a.terminal()
	c, _, err := a.load()
	if err != nil {
		return err
	}
	look := a.looker(c)
	for {
		r, err := look(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was interrupted
		}
		if live && a.output != "json" {
			if _, err := io.WriteString(a.Out, "\x1b[H\x1b[2J"); err != nil {
				return err
			}
		}
		var code silent
		if shown := a.showOverview(r, err); shown != nil && !errors.As(shown, &code) {
			return shown
		}
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
