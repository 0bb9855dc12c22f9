package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
)

func (a *App) deploymentCommand() *cobra.Command {
	c := &cobra.Command{Use: "deployment", Short: "Deployments: several groups as one document with versions"}
	c.AddCommand(a.deploymentApply(), a.deploymentDiff(), a.deploymentList(), a.deploymentDescribe(), a.deploymentHistory(), a.deploymentExport(), a.deploymentUndo(), a.deploymentClone(), a.deploymentDelete())
	return c
}

// completeDeployment offers names of deployments for the first argument.
func (a *App) completeDeployment(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Deployments(ctx)
		names := []string{}
		for _, d := range list {
			names = append(names, d.Name)
		}
		return names, err
	})
}

// readDeployment loads the one deployment of the files, and validates it. The error lists all problems.
func (f *fileFlags) readDeployment(paths []string) (deployment.Document, error) {
	vars, err := groupfile.CollectVars(f.vars, f.varFiles)
	if err != nil {
		return deployment.Document{}, usageError{err}
	}
	problems := &groupfile.Error{}
	d, err := groupfile.LoadDeployment(paths, vars, f.only)
	switch {
	case errors.Is(err, groupfile.ErrNotOne):
		return deployment.Document{}, usageError{err}
	case err != nil && (d.Name == "" || !errors.As(err, &problems)):
		return deployment.Document{}, err
	}
	doc := d.Document()
	for _, g := range d.Groups {
		for _, p := range problemsOf(g) {
			problems.Problems = append(problems.Problems, strings.Replace(p, ": group "+g.Spec.Name+": ", fmt.Sprintf(": group[%q].", g.Spec.Name), 1))
		}
	}
	// The problems of each group are known with their lines.
	judged := func(group.Spec) error { return nil }
	for _, p := range deployment.Validate(doc, judged, nil) {
		problems.Problems = append(problems.Problems, d.Position()+": deployment "+d.Name+": "+p.String())
	}
	if len(problems.Problems) > 0 {
		return doc, problems
	}
	return doc, nil
}

// documentOn gives the groups without a platform the platform of the cluster.
func documentOn(c client.Context, doc deployment.Document) deployment.Document {
	groups := make([]groupfile.Group, len(doc.Groups))
	for i, spec := range doc.Groups {
		groups[i].Spec = spec
	}
	onPlatform(c, groups)
	for i, g := range groups {
		doc.Groups[i] = g.Spec
	}
	return doc
}

func (a *App) deploymentList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List all deployments", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Deployments(cmd.Context())
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Deployments(s, list) })
			})
		},
	}
}

func (a *App) deploymentDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME", Short: "Show a deployment and the state of its groups", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeDeployment,
		Long: `Shows the present version, and for each group its rollout and whether its spec is still
that of the version. A group that was edited alone has drifted: the next apply of the
deployment writes the spec of the document again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				d, err := cl.Deployment(cmd.Context(), args[0], 0)
				if err != nil {
					return err
				}
				groups, err := cl.Groups(cmd.Context())
				if err != nil {
					return err
				}
				return a.show(d, func(s render.Style) string { return render.Deployment(s, d, groups) })
			})
		},
	}
}

func (a *App) deploymentHistory() *cobra.Command {
	return &cobra.Command{
		Use: "history NAME", Short: "List the versions of a deployment", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeDeployment,
		Long: fmt.Sprintf("Lists the last %d versions, the present one first, with the groups that each version changed.", deployment.MaxVersions),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				d, err := cl.Deployment(cmd.Context(), args[0], 0)
				if err != nil {
					return err
				}
				return a.show(d.Versions, func(s render.Style) string { return render.DeploymentHistory(s, d.Deployment) })
			})
		},
	}
}

func (a *App) deploymentExport() *cobra.Command {
	var version int
	c := &cobra.Command{
		Use: "export NAME", Short: "Print the document of a version as JSON", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeDeployment,
		Long:    "Prints the document of the present version, or of --version. `cadre deployment apply` takes the output as a file *.json.",
		Example: "  cadre deployment export shop-staging > shop-staging.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				d, err := cl.Deployment(cmd.Context(), args[0], version)
				if err != nil {
					return err
				}
				a.simulated = false // the document is applied again, and has no further field
				return a.json(d.Document)
			})
		},
	}
	c.Flags().IntVar(&version, "version", 0, "the version; the present one without it")
	return c
}

func (a *App) deploymentDiff() *cobra.Command {
	var f fileFlags
	c := &cobra.Command{
		Use: "diff FILE...", Short: "Show the changes that an apply of the document would make", Args: cobra.MinimumNArgs(1),
		Long: `Compares the document with the running specs and with the present version. Drift is the
difference of a running spec to the version, which an edit of the group alone made.`,
		Example: "  cadre deployment diff shop.hcl --var image=v2",
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := f.readDeployment(args)
			if err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				doc := documentOn(cl.Context(), doc)
				present, err := cl.Deployment(cmd.Context(), doc.Name, 0)
				if err != nil && client.KindOf(err) != client.NotFound {
					return err
				}
				out := deploymentDiff{Deployment: doc.Name, Version: present.Present().Number, Drifted: present.Drifted, Groups: []change{}}
				out.Labels = !maps.Equal(present.Present().Labels, doc.Labels)
				for _, spec := range doc.Groups {
					one, err := compare(cmd, cl, spec)
					if err != nil {
						return err
					}
					out.Groups = append(out.Groups, one)
				}
				for name := range present.Present().Digests {
					if !slices.ContainsFunc(doc.Groups, func(s group.Spec) bool { return s.Name == name }) {
						out.Leaving = append(out.Leaving, name)
					}
				}
				slices.Sort(out.Leaving)
				return a.show(out, out.picture)
			})
		},
	}
	f.bindFor(c, "deployment")
	return c
}

// deploymentDiff is the schema of -o json.
type deploymentDiff struct {
	Deployment string `json:"deployment"`
	// Version is the present one; 0: the deployment is new.
	Version int      `json:"version"`
	Drifted []string `json:"drifted,omitempty"`
	// Labels: they differ.
	Labels  bool     `json:"labels,omitempty"`
	Groups  []change `json:"groups"`
	Leaving []string `json:"leaving,omitempty"`
}

func (d deploymentDiff) picture(s render.Style) string {
	text := fmt.Sprintf("deployment %s is at version %d\n", d.Deployment, d.Version)
	if d.Version == 0 {
		text = fmt.Sprintf("deployment %s is new\n", d.Deployment)
	}
	for _, name := range d.Drifted {
		text += s.Line(fmt.Sprintf("drift: the spec of group %s is not that of version %d", name, d.Version), render.Warn)
	}
	if d.Labels && d.Version > 0 {
		text += "the labels change\n"
	}
	for _, one := range d.Groups {
		text += one.picture(s) + render.Warnings(s, one.Warnings)
	}
	return text + leavingText(s, d.Leaving)
}

func leavingText(s render.Style, groups []string) string {
	text := ""
	for _, name := range groups {
		text += s.Line(fmt.Sprintf("group %s leaves the deployment and keeps running; delete it with `cadre group delete %s`", name, name), render.Warn)
	}
	return text
}

func (a *App) deploymentDelete() *cobra.Command {
	var d client.Deletion
	var sure sureFlags
	var wait waitFlags
	c := &cobra.Command{
		Use: "delete NAME --keep-cvms|--delete-disks", Short: "Delete a deployment: all its groups, and its versions", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeDeployment,
		Long: `Asks for the deletion of every group of the present version, and removes the record of the
deployment, in one transaction. Exactly one flag decides about the CVMs, as in
` + "`cadre group delete`" + `, which also ends the deletion of a single group with --cancel.

Without --confirm or --yes the command only prints the resources to delete.`,
		Example: "  cadre deployment delete shop-staging --delete-disks --reason \"the test is over\" --confirm shop-staging --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case d.KeepCVMs == d.DeleteDisks:
				return usagef("give exactly one of --keep-cvms and --delete-disks")
			case strings.TrimSpace(d.Reason) == "":
				return usagef("--reason is missing: the records show it as the cause of the deletion")
			}
			return a.withClient(func(cl *client.Client) error {
				present, err := cl.Deployment(cmd.Context(), args[0], 0)
				if err != nil {
					return err
				}
				meant := sure.sure(args[0])
				d.DryRun = !meant
				out, err := cl.DeleteDeployment(cmd.Context(), args[0], present.Present().Number, d)
				if err != nil {
					return err
				}
				err = a.unlessSure(out, meant, args[0], func(s render.Style) string { return render.DeletedDeployment(s, out, d) })
				if err != nil || !wait.wait {
					return err
				}
				return a.waitGone(cmd.Context(), cl, out.Groups, wait.timeout)
			})
		},
	}
	c.Flags().BoolVar(&d.KeepCVMs, "keep-cvms", false, "leave the CVMs on the platform")
	c.Flags().BoolVar(&d.DeleteDisks, "delete-disks", false, "delete the CVMs and their disks")
	c.Flags().StringVar(&d.Reason, "reason", "", "reason, for the record (required)")
	sure.bind(c, "NAME")
	wait.bind(c, "every group is gone")
	return c
}
