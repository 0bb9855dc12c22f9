package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
)

// deployFlags are the flags of commands that write a deployment.
type deployFlags struct {
	dryRun  bool
	reason  string
	wait    bool
	timeout time.Duration
}

func (f *deployFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "reason, for the history and the record")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until every group of the deployment is rolled out and available; fail with the reason")
	c.Flags().DurationVar(&f.timeout, "timeout", 30*time.Minute, "how long --wait waits for each group; the rollouts continue after it")
}

func (f *deployFlags) bindDryRun(c *cobra.Command) {
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "validate and compare; write nothing")
}

// deployed is the outcome of a write, and the schema of -o json.
type deployed struct {
	Deployment string    `json:"deployment"`
	Version    int       `json:"version"`
	Of         int       `json:"of,omitempty"`
	Changed    bool      `json:"changed"`
	DryRun     bool      `json:"dry_run,omitempty"`
	Groups     []applied `json:"groups"`
	Leaving    []string  `json:"leaving,omitempty"`
	By         string    `json:"by,omitempty"`
	RequestID  string    `json:"request_id,omitempty"`
}

func (a *App) deploymentApply() *cobra.Command {
	var files fileFlags
	var f deployFlags
	c := &cobra.Command{
		Use: "apply FILE...", Short: "Apply the document of a deployment", Args: cobra.MinimumNArgs(1),
		Long: `Validates the document, shows the changes of every group, and writes all changed specs with
a new version in one transaction: all of them or none. The write is refused if the deployment
or one of its groups changed since it was read. The rollouts are the leader's work.

A file *.hcl has one deployment block with the groups in it. A file *.json has the form of
` + "`cadre deployment export`" + `. A group that the document leaves out keeps running.`,
		Example: "  cadre deployment apply shop.hcl --wait\n  cadre deployment apply shop.hcl --var image=v2 --reason \"release 2\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := files.readDeployment(args)
			if err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				doc := documentOn(cl.Context(), doc)
				return a.deploy(cmd, cl, doc.Name, nil, f, func(o client.DeploymentOptions) (client.AppliedDeployment, error) {
					return cl.ApplyDeployment(cmd.Context(), doc, o)
				})
			})
		},
	}
	files.bindFor(c, "deployment")
	f.bindDryRun(c)
	f.bind(c)
	return c
}

func (a *App) deploymentUndo() *cobra.Command {
	var f deployFlags
	var sure sureFlags
	var to int
	c := &cobra.Command{
		Use: "undo NAME", Short: "Go back to an earlier version of a deployment", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeDeployment,
		Long: `Writes the labels and specs of an earlier version again, as a new version: whole specs, with
sizes, budgets and routes. Without --to the command takes the newest earlier version with
another content. The command is refused as a whole if a revision of it is revoked or below
the floor. Groups that the earlier version lacks keep running, outside of the deployment.

Without --confirm or --yes the command only prints the changes. Change the document too: its
next apply otherwise brings the later version back.`,
		Example: "  cadre deployment undo shop\n  cadre deployment undo shop --to 3 --reason \"release 4 is slow\" --confirm shop --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				shown := f
				meant := sure.sure(args[0]) && !f.dryRun
				shown.dryRun = !meant
				err := a.deploy(cmd, cl, args[0], nil, shown, func(o client.DeploymentOptions) (client.AppliedDeployment, error) {
					return cl.UndoDeployment(cmd.Context(), args[0], to, o)
				})
				if err != nil || meant || f.dryRun {
					return err
				}
				return usagef("nothing is changed: repeat with --confirm %s", args[0])
			})
		},
	}
	c.Flags().IntVar(&to, "to", 0, "the `version` to go back to, as cadre deployment history lists it")
	sure.bind(c, "NAME")
	f.bindDryRun(c)
	f.bind(c)
	return c
}

func (a *App) deploymentClone() *cobra.Command {
	var f deployFlags
	var settings []string
	var version int
	c := &cobra.Command{
		Use: "clone NAME NEW", Short: "Make another deployment from the document of one", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeDeployment,
		Long: `Creates a deployment NEW with the groups of NAME, under names that begin with NEW: each gets
its own app, disks, secrets and addresses. A group that exists under such a name is not
taken over: the command is refused. Members of the clone reach its routes under the
names of the original, so that applications need no change. The original stays as it is.

Allowed groups outside of the original are left out: name them in the clone's own document.
Values of operators' secrets are not copied: set them with ` + "`cadre secret set`" + `.`,
		Example: "  cadre deployment clone shop shop-staging --set replicas=1 --set web.replicas=2\n  cadre deployment clone shop shop-next --set web.template.env.RELEASE=2 --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				from, err := cl.Deployment(cmd.Context(), args[0], version)
				if err != nil {
					return err
				}
				doc, err := deployment.Clone(from.Document, args[1], settings...)
				if err != nil {
					return usageError{err}
				}
				originals := map[string]group.Spec{}
				for i, spec := range doc.Groups {
					originals[spec.Name] = from.Document.Groups[i]
				}
				return a.deploy(cmd, cl, args[1], originals, f, func(o client.DeploymentOptions) (client.AppliedDeployment, error) {
					if !o.ExpectAbsent {
						return client.AppliedDeployment{}, &client.Error{Kind: client.Conflict, Doing: "clone deployment " + args[0],
							Message: fmt.Sprintf("deployment %s exists already, at version %d, and a clone is a new one", args[1], o.ExpectedVersion),
							Hint:    "nothing was changed: choose another name; `cadre deployment list` shows the names in use"}
					}
					o.Verb, o.Indexes = "clone", map[string]uint64{}
					for _, spec := range doc.Groups {
						o.Indexes[spec.Name] = 0 // a clone takes no group over
					}
					return cl.ApplyDeployment(cmd.Context(), doc, o)
				})
			})
		},
	}
	c.Flags().StringArrayVar(&settings, "set", nil, "field=value of every group, or group.field=value of one; may be repeated")
	c.Flags().IntVar(&version, "version", 0, "the version of NAME; the present one without it")
	f.bindDryRun(c)
	f.bind(c)
	return c
}

// deploy shows the changes of a write, writes, and waits. write is called twice: first as a dry run, which
// reports all problems. A group of originals, by the group's name, is shown by its differences to that spec.
func (a *App) deploy(cmd *cobra.Command, cl *client.Client, name string, originals map[string]group.Spec, f deployFlags, write func(client.DeploymentOptions) (client.AppliedDeployment, error)) error {
	out := deployed{Deployment: name, DryRun: f.dryRun, Groups: []applied{}}
	err := a.deployOnce(cmd, cl, &out, originals, f, write)
	if err == nil && f.wait && !f.dryRun {
		for i := range out.Groups {
			if err = a.waitFor(cmd.Context(), cl, &out.Groups[i], f.timeout); err != nil {
				break
			}
		}
	}
	if a.output == "json" {
		return errors.Join(err, a.json(out))
	}
	return err
}

func (a *App) deployOnce(cmd *cobra.Command, cl *client.Client, out *deployed, originals map[string]group.Spec, f deployFlags, write func(client.DeploymentOptions) (client.AppliedDeployment, error)) error {
	s := a.style()
	a.print(render.Banner(s, a.simulated))
	options, err := expectedDeployment(cmd.Context(), cl, out.Deployment)
	if err != nil {
		return err
	}
	options.DryRun, options.Reason = true, f.reason
	dry, err := write(options)
	if err != nil {
		return err
	}
	out.Version, out.Of, out.Leaving, out.By, out.RequestID = dry.Version, dry.Of, dry.Leaving, dry.By, dry.RequestID
	options.Indexes = map[string]uint64{}
	for _, g := range dry.Groups {
		diffed, err := compare(cmd, cl, g.Spec)
		if err != nil {
			return err
		}
		if original, is := originals[g.Group]; is {
			if err := diffed.copied(original, g.Spec); err != nil {
				return err
			}
		}
		diffed.Warnings, diffed.To = g.Warnings, g.Revision
		options.Indexes[g.Group] = diffed.index
		out.Groups = append(out.Groups, applied{change: diffed, DryRun: f.dryRun, Index: diffed.index, Leaving: g.LeavingSlots, HeldDisks: g.HeldDisks, stopped: g.Spec.Stopped})
		a.print(diffed.picture(s) + render.Warnings(s, g.Warnings) + render.Leaving(s, g.HeldDisks, false, f.dryRun))
	}
	a.print(leavingText(s, dry.Leaving))
	switch {
	case !dry.Changed:
		a.print(fmt.Sprintf("deployment %s is unchanged, version %d\n", out.Deployment, dry.Version))
		return nil
	case f.dryRun:
		a.print(fmt.Sprintf("dry run: version %d was not written\n", dry.Version))
		return nil
	}
	options.DryRun = false
	done, err := write(options)
	if err != nil {
		return err
	}
	out.Changed, out.Version, out.By, out.RequestID = done.Changed, done.Version, done.By, done.RequestID
	for i, g := range done.Groups {
		out.Groups[i].Changed, out.Groups[i].Index, out.Groups[i].By, out.Groups[i].RequestID = g.Changed, g.Index, done.By, done.RequestID
	}
	text := fmt.Sprintf("deployment %s applied, version %d", out.Deployment, done.Version)
	if done.Of != 0 {
		text += fmt.Sprintf(" with the content of version %d", done.Of)
	}
	text += ", request " + done.RequestID + "\n"
	if !f.wait {
		text += fmt.Sprintf("its groups are in `cadre deployment describe %s`\n", out.Deployment)
	}
	a.print(text)
	return nil
}

// expectedDeployment returns the state that a write of a deployment expects: the present version, or none.
func expectedDeployment(ctx context.Context, cl *client.Client, name string) (client.DeploymentOptions, error) {
	present, err := cl.Deployment(ctx, name, 0)
	switch {
	case client.KindOf(err) == client.NotFound:
		return client.DeploymentOptions{ExpectAbsent: true}, nil
	case err != nil:
		return client.DeploymentOptions{}, err
	}
	return client.DeploymentOptions{ExpectedVersion: present.Present().Number}, nil
}
