package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/diff"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/client/groupfile"
	"cadre.dev/compose/lint"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/upgrade"
)

func (a *App) groupCommand() *cobra.Command {
	c := &cobra.Command{Use: "group", Short: "Groups: specs and their state"}
	c.AddCommand(a.groupApply(), a.groupDescribe(), a.groupList(), a.groupDiff(), a.groupValidate(), a.groupStop(true), a.groupStop(false), a.groupDelete(), a.groupAdopt())
	return c
}

func (a *App) groupList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List all groups", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(cl *client.Client) error {
				groups, err := cl.Groups(cmd.Context())
				if err != nil {
					return err
				}
				overrides, err := cl.Overrides(cmd.Context(), "")
				if err != nil {
					return err
				}
				return a.show(groups, func(s render.Style) string { return render.Groups(s, groups, overrides) })
			})
		},
	}
}

func (a *App) groupDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe GROUP", Short: "Show a group and each of its instances", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				g, err := cl.Group(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				overrides, err := cl.Overrides(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(g, func(s render.Style) string {
					return render.Group(s, g, client.StopOf(overrides, args[0]), a.now())
				})
			})
		},
	}
}

// fileFlags are the flags of commands that read group files.
type fileFlags struct {
	vars, varFiles []string
	only           string
}

func (f *fileFlags) bind(c *cobra.Command) { f.bindFor(c, "group") }

// bindFor binds the flags for files of which a block of that kind may be chosen.
func (f *fileFlags) bindFor(c *cobra.Command, kind string) {
	f.bindVars(c)
	c.Flags().StringVar(&f.only, kind, "", "use only this "+kind+" of the files")
	c.ValidArgsFunction = completeHCL
}

func (f *fileFlags) bindVars(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.vars, "var", nil, "name=value for var.name in the files; may be repeated")
	c.Flags().StringArrayVar(&f.varFiles, "var-file", nil, "file of name = \"value\" lines; may be repeated")
}

// onPlatform gives groups without a platform the platform of the cluster.
func onPlatform(c client.Context, groups []groupfile.Group) {
	for i := range groups {
		if groups[i].Spec.Platform == "" && c.Platform.Driver != group.PlatformPhala {
			groups[i].Spec.Platform = c.Platform.Driver
		}
	}
}

// read loads the files and validates every group. The error lists all problems.
func (f *fileFlags) read(paths []string) ([]groupfile.Group, error) {
	vars, err := groupfile.CollectVars(f.vars, f.varFiles)
	if err != nil {
		return nil, usageError{err}
	}
	problems := &groupfile.Error{}
	file, err := groupfile.Load(paths, vars)
	if err != nil && !errors.As(err, &problems) {
		return nil, err
	}
	out := []groupfile.Group{}
	for _, g := range file.Groups {
		if f.only != "" && g.Spec.Name != f.only {
			continue
		}
		out = append(out, g)
		problems.Problems = append(problems.Problems, problemsOf(g)...)
	}
	switch {
	case len(problems.Problems) > 0:
		return nil, problems
	case len(out) == 0 && f.only != "":
		return nil, usagef("no group %q in the files", f.only)
	case len(out) == 0:
		return nil, usagef("no group block in the files; a deployment block is for `cadre deployment apply`")
	}
	return out, nil
}

// problemsOf validates one group. Each problem names its field and line.
func problemsOf(g groupfile.Group) []string {
	out := []string{}
	for _, r := range lint.Refusals(g.Spec, g.Wrong) {
		if !g.Judged(r.Path) {
			continue
		}
		out = append(out, fmt.Sprintf("%s: group %s: %s", g.Position(r.Path), g.Spec.Name, r.Text))
	}
	return out
}

func (a *App) groupValidate() *cobra.Command {
	var f fileFlags
	c := &cobra.Command{
		Use: "validate FILE...", Short: "Check group files without a cluster", Args: cobra.MinimumNArgs(1),
		Long:    "Checks *.hcl files (or folders of them) and reports every problem with its file, line and field.\nThe command contacts no cluster.",
		Example: "  cadre group validate postgres.hcl --var image=v2\n  cadre group validate clusters/postgres --group postgres",
		RunE: func(_ *cobra.Command, args []string) error {
			groups, err := f.read(args)
			if err != nil {
				return err
			}
			specs := []group.Spec{}
			for _, g := range groups {
				specs = append(specs, g.Spec)
			}
			return a.show(specs, func(s render.Style) string {
				text := ""
				for _, spec := range specs {
					spec.Normalize()
					text += fmt.Sprintf("group %s is valid, revision %s\n", spec.Name, format.Short(spec.Revision()))
					text += render.Warnings(s, lint.Advice(spec))
				}
				return text
			})
		},
	}
	f.bind(c)
	return c
}

// change lists the differences that applying one group would make.
type change struct {
	Group  string        `json:"group"`
	New    bool          `json:"new"`
	From   string        `json:"from_revision,omitempty"`
	To     string        `json:"to_revision"`
	Fields []diff.Change `json:"fields"`
	// Of is the group that this new one is a copy of. Fields are the differences then.
	Of       string   `json:"of,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	index    uint64
	// rollout is the state of the group's rollout.
	rollout operation.RolloutState
}

// compare reads the stored spec and compares both specs with their defaults filled in.
func compare(cmd *cobra.Command, cl *client.Client, spec group.Spec) (change, error) {
	spec.Normalize()
	out := change{Group: spec.Name, To: spec.Revision(), Warnings: slices.Concat(group.Warnings(spec), lint.EnvAdvice(spec.Template))}
	stored, err := cl.Group(cmd.Context(), spec.Name)
	var before any = map[string]any{}
	switch {
	case client.KindOf(err) == client.NotFound:
		out.New = true
	case err != nil:
		return out, err
	default:
		old := stored.Spec
		old.Normalize()
		before, out.index, out.rollout = old, stored.Index, operation.RolloutState(stored.Status.RolloutState)
		out.Warnings = slices.Concat(out.Warnings, group.EditWarnings(old, spec), upgrade.Texts(upgrade.Edit(old, spec)))
		out.From = old.Revision()
	}
	out.Fields, err = diff.Compare(before, spec)
	for i := range out.Fields {
		if !out.New {
			out.Fields[i].Class = string(group.ClassOf(out.Fields[i].Path))
		}
	}
	return out, err
}

// copied makes c the change to a copy of another group.
func (c *change) copied(original, spec group.Spec) (err error) {
	original.Normalize()
	spec.Normalize()
	c.Of = original.Name
	c.Fields, err = diff.Compare(original, spec)
	return err
}

func (c change) picture(s render.Style) string {
	switch {
	case c.Of != "":
		return fmt.Sprintf("group %s is a copy of %s, revision %s\n", c.Group, c.Of, format.Short(c.To)) + render.Diff(s, c.Fields)
	case c.New:
		return fmt.Sprintf("group %s is new, revision %s\n", c.Group, format.Short(c.To)) + render.Diff(s, c.Fields)
	case len(c.Fields) == 0:
		text := fmt.Sprintf("group %s is unchanged, revision %s\n", c.Group, format.Short(c.To))
		if c.rollout.Failed() {
			text += s.Line(fmt.Sprintf("its rollout is %s, and the same spec begins no new one; to try again: cadre rollout retry %s --reason WHY", c.rollout, c.Group), render.Warn)
		}
		return text
	case c.From == c.To:
		return fmt.Sprintf("group %s changes, revision stays %s\n", c.Group, format.Short(c.To)) + render.Diff(s, c.Fields)
	}
	return fmt.Sprintf("group %s changes, revision %s\n", c.Group, format.Arrow(c.From, c.To)) + render.Diff(s, c.Fields)
}

func (a *App) groupDiff() *cobra.Command {
	var f fileFlags
	c := &cobra.Command{
		Use: "diff FILE...", Short: "Show the changes that an apply of the files would make", Args: cobra.MinimumNArgs(1),
		Long: `Compares the groups of the files with the stored specs, field by field, each with the action
that its change takes. ` + "`cadre group apply --dry-run`" + ` shows the leader's plan too.`,
		Example: "  cadre group diff postgres.hcl --var image=v2",
		RunE: func(cmd *cobra.Command, args []string) error {
			groups, err := f.read(args)
			if err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				all := []change{}
				onPlatform(cl.Context(), groups)
				for _, g := range groups {
					one, err := compare(cmd, cl, g.Spec)
					if err != nil {
						return err
					}
					all = append(all, one)
				}
				return a.show(all, func(s render.Style) string {
					text := ""
					for _, one := range all {
						text += one.picture(s) + render.Warnings(s, one.Warnings)
					}
					return text
				})
			})
		},
	}
	f.bind(c)
	return c
}
