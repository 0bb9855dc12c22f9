package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

type applyFlags struct {
	fileFlags
	dryRun, wait bool
	timeout      time.Duration
	deleteDisks  bool
	reason       string
	sure         sureFlags
	// index of the spec from which the new one was made; 0: the index of the compared spec.
	index uint64
	// verb is the prefix of the request ids; "": apply.
	verb string
	// unconfirmed are the groups that would lose disks without a word of their own; while
	// there is one, every group is shown and none is written.
	unconfirmed []string
}

// applied is the outcome for one group, also the form of -o json.
type applied struct {
	change
	Plan    *rollout.Plan `json:"plan,omitempty"`
	Changed bool          `json:"changed"`
	DryRun  bool          `json:"dry_run,omitempty"`
	Index   uint64        `json:"index"`
	// By and RequestID name the call that wrote the spec.
	By        string `json:"by,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Waited    string `json:"waited,omitempty"`
	// Leaving are the slots that are removed, HeldDisks the slots that stay for their disks.
	Leaving   []string `json:"leaving,omitempty"`
	HeldDisks []string `json:"held_disks,omitempty"`
	stopped   bool
}

func (a *App) groupApply() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use: "apply FILE...", Short: "Apply the groups of the files", Args: cobra.MinimumNArgs(1),
		Long: `Validates the files, shows the changes and the leader's planned steps, and writes
the specs. The rollout is the leader's work: it goes on whether or not this
program waits. The write is refused if the spec changed since it was read.

Fewer replicas remove the slots with the highest numbers. The data on their disks would
be lost with them, so they stay, held, until --delete-disks gives it up. Where it would,
nothing is written without --confirm or --yes: it only says which disks would go. Each
group that would lose disks is confirmed by its own name; until all are, none is written.`,
		Example: "  cadre group apply postgres.hcl --wait\n  cadre group apply web.hcl --delete-disks --reason \"half the load is gone\" --confirm web",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.deleteDisks && !f.dryRun && strings.TrimSpace(f.reason) == "" {
				return usagef("--reason is missing: --delete-disks is permanent, and the record shows its reason")
			}
			groups, err := f.read(args)
			if err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error { return a.apply(cmd, cl, f, groups) })
		},
	}
	f.bind(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "validate, compare and plan; write nothing")
	c.Flags().BoolVar(&f.deleteDisks, "delete-disks", false, "the disks of slots that a smaller number of replicas removes may be deleted")
	c.Flags().StringVar(&f.reason, "reason", "", "with --delete-disks: reason, for the record (required)")
	f.sure.bindEach(c, "with --delete-disks: each GROUP that loses disks")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until every slot proved the target and is available; fail with the rollout's reason")
	c.Flags().DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long --wait waits; the rollout continues after it")
	return c
}

func (a *App) apply(cmd *cobra.Command, cl *client.Client, f applyFlags, groups []groupfile.Group) error {
	results := []applied{}
	a.print(render.Banner(a.style(), a.simulated))
	var failed error
	if f.unconfirmed, failed = unconfirmed(cmd.Context(), cl, f, groups); failed != nil {
		return failed
	}
	onPlatform(cl.Context(), groups)
	for _, g := range groups {
		one, err := a.applyOne(cmd, cl, f, g)
		results = append(results, one)
		if err != nil {
			failed = err
			break
		}
	}
	if failed == nil && len(f.unconfirmed) > 0 {
		failed = usagef("nothing is changed: add --confirm %s", strings.Join(f.unconfirmed, " --confirm "))
	}
	if failed == nil && f.wait && !f.dryRun {
		for i := range results {
			if failed = a.waitFor(cmd.Context(), cl, &results[i], f.timeout); failed != nil {
				break
			}
		}
	}
	if a.output == "json" {
		return errors.Join(failed, a.json(results))
	}
	return failed
}

// unconfirmed asks before the first write, so that no group has lost its disks when the word
// for the next is found missing. Where one cannot be asked about, none is written either.
func unconfirmed(ctx context.Context, cl *client.Client, f applyFlags, groups []groupfile.Group) ([]string, error) {
	var names []string
	if !f.deleteDisks || f.dryRun {
		return nil, nil
	}
	for _, g := range groups {
		if f.sure.sure(g.Spec.Name) {
			continue
		}
		checked, err := cl.ApplyGroupWith(ctx, g.Spec, client.ApplyOptions{DryRun: true})
		if err != nil {
			return nil, err
		}
		if len(checked.HeldDisks) > 0 {
			names = append(names, g.Spec.Name)
		}
	}
	return names, nil
}

func (a *App) applyOne(cmd *cobra.Command, cl *client.Client, f applyFlags, g groupfile.Group) (applied, error) {
	diffed, err := compare(cmd, cl, g.Spec)
	out := applied{change: diffed, DryRun: f.dryRun, Index: diffed.index, stopped: g.Spec.Stopped}
	if err != nil {
		return out, err
	}
	if f.index != 0 {
		diffed.index = f.index
	}
	s := a.style()
	a.print(diffed.picture(s))
	// Another client may create the group after it was read as missing.
	options := client.ApplyOptions{ExpectedIndex: diffed.index, ExpectAbsent: diffed.New && diffed.index == 0, DryRun: true}
	checked, err := cl.ApplyGroupWith(cmd.Context(), g.Spec, options)
	if err != nil {
		return out, err
	}
	out.Warnings, out.Leaving, out.HeldDisks = checked.Warnings, checked.Leaving, checked.HeldDisks
	if checked.Revision != "" {
		out.To = checked.Revision // the coordinators may be of another version, and it is theirs that is waited for
	}
	lost := f.deleteDisks && len(checked.HeldDisks) > 0
	a.print(render.Warnings(s, checked.Warnings))
	a.print(render.Leaving(s, checked.HeldDisks, lost, f.dryRun || len(f.unconfirmed) > 0))
	if !diffed.New && len(diffed.Fields) == 0 && !lost {
		return out, nil
	}
	// A plan needs a leader with a view; a spec must be appliable without one (R145).
	if p, err := cl.Plan(cmd.Context(), g.Spec.Name, &g.Spec); err == nil {
		out.Plan = &p
		said := func(text string) bool { return slices.Contains(checked.Warnings, text) }
		p.Warnings = slices.DeleteFunc(p.Warnings, said)
		if lost {
			f.answerDisks(p.Actions, g.Spec.Name)
		}
		a.print(render.Plan(s, p, a.now()))
	} else if client.KindOf(err) != client.NotFound {
		a.print("no plan now: " + err.Error() + "\n")
	}
	if f.dryRun {
		a.print("dry run: nothing was written\n")
		return out, nil
	}
	switch {
	case len(f.unconfirmed) > 0:
		return out, nil
	case lost && !f.sure.sure(g.Spec.Name): // since all were asked about
		return out, usagef("group %s is not changed: add --confirm %s", g.Spec.Name, g.Spec.Name)
	}
	options.DryRun, options.DeleteDisks, options.Reason, options.Verb = false, lost, f.reason, f.verb
	done, err := cl.ApplyGroupWith(cmd.Context(), g.Spec, options)
	if err != nil {
		return out, err
	}
	out.Changed, out.Index, out.To, out.HeldDisks = done.Changed, done.Index, done.Revision, done.HeldDisks
	out.By, out.RequestID = done.By, done.RequestID
	text := fmt.Sprintf("group %s applied, index %d", g.Spec.Name, done.Index)
	if done.RequestID != "" { // else the coordinators are too old to say
		text += ", request " + done.RequestID
	}
	a.print(text + "\n")
	if !f.wait {
		a.print(fmt.Sprintf("watch it with `cadre rollout watch %s`\n", g.Spec.Name))
	}
	return out, nil
}

// answerDisks replaces the messages of the leader, which does not know of --delete-disks yet.
func (f *applyFlags) answerDisks(actions []rollout.Action, group string) {
	message := "given up by this apply"
	if !f.sure.sure(group) {
		message = "--delete-disks needs --confirm " + group + " as well"
	}
	for _, a := range actions {
		for i := range a.Holds {
			if a.Holds[i].Predicate == rollout.HoldDeleteDisks {
				a.Holds[i].Message = message
			}
		}
	}
}

// waitFor waits for one group and prints its progress.
func (a *App) waitFor(ctx context.Context, cl *client.Client, one *applied, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	screen := a.newScreen()
	err := cl.Wait(ctx, one.Group, client.WaitOptions{Index: one.Index, Revision: one.To, See: screen.see, Lost: screen.lost, Tick: screen.tick})
	screen.end()
	switch {
	case err == nil && one.stopped:
		one.Waited = "stopped"
		a.print(fmt.Sprintf("group %s: every CVM is stopped with its disk\n", one.Group))
	case err == nil:
		var text string
		one.Waited, text = screen.ending(format.Short(one.To))
		a.print("group " + one.Group + ": " + text + "\n")
	case errors.Is(err, context.DeadlineExceeded):
		one.Waited = "timeout"
		return latef("group %s: not complete after %s; the rollout continues, see `cadre rollout status %s`", one.Group, timeout, one.Group)
	case errors.Is(ctx.Err(), context.Canceled):
		one.Waited = "interrupted"
		return fmt.Errorf("group %s: the wait was interrupted; the rollout continues, see `cadre rollout status %s`", one.Group, one.Group)
	default:
		one.Waited = err.Error()
		return explain(err, one.Group)
	}
	return nil
}

// explain adds the operator's next action after a rollout that stopped.
func explain(err error, name string) error {
	var stopped *client.RolloutError
	if !errors.As(err, &stopped) {
		return err
	}
	onward := "cadre rollout resume " + name
	switch {
	case stopped.State == operation.SupersededState: // the newer rollout goes on
		return fmt.Errorf("%w\nsee `cadre rollout status %s`", err, name)
	case stopped.State.Failed():
		onward = "cadre rollout retry " + name + " --reason WHY" // no pause holds the rollout
	}
	return fmt.Errorf("%w\nsee `cadre rollout status %s`; apply a corrected file to move on, or `%s`", err, name, onward)
}

// print writes for people; nothing with -o json.
func (a *App) print(text string) {
	if a.output != "json" {
		_, _ = io.WriteString(a.Out, text)
	}
}
