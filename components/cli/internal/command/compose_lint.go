package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client/groupfile"
	"cadre.dev/compose/lint"
	"cadre.dev/core/appcompose"
)

// linted is the outcome, also the form of -o json.
type linted struct {
	Files    []string       `json:"files"`
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Findings []lint.Finding `json:"findings"`
}

func (a *App) composeLint() *cobra.Command {
	var vars fileFlags
	var strict bool
	var rules appcompose.Rules
	c := &cobra.Command{
		Use: "lint FILE...", Short: "List the reasons why a compose file's hash does not fix the code that runs", Args: cobra.MinimumNArgs(1),
		Long: `Takes docker compose files, app-compose.json, and Cadre's *.hcl files (or folders of
them), whose rendered compose files are checked.

Exit codes:
  0  no error was found (with --strict: nothing at all)
  1  something was found, or a file cannot be read
  2  wrong usage`,
		Example: "  cadre compose lint docker-compose.yaml app-compose.json\n  cadre compose lint clusters/postgres/postgres.hcl --var-file demo.vars -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			out := linted{Files: args, Findings: []lint.Finding{}}
			for _, name := range args {
				findings, err := a.lintOne(name, vars, rules)
				if err != nil {
					return lintFailure(err)
				}
				out.Findings = append(out.Findings, findings...)
			}
			out.Errors = len(lint.Errors(out.Findings))
			out.Warnings = len(out.Findings) - out.Errors
			if err := a.show(out, func(s render.Style) string { return render.Findings(s, out.Findings, len(args)) }); err != nil {
				return err
			}
			if out.Errors > 0 || strict && out.Warnings > 0 {
				return silent{ExitError}
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&vars.vars, "var", nil, "name=value for var.name in *.hcl files; may be repeated")
	c.Flags().StringArrayVar(&vars.varFiles, "var-file", nil, "file of name = \"value\" lines for *.hcl files; may be repeated")
	c.Flags().StringArrayVar(&rules.Scripts, "allow-script", nil, "SHA-256 of a pre-launch script that may stand in app-compose.json; may be repeated")
	c.Flags().BoolVar(&rules.SecureTimeOff, "secure-time-off", false, "app-compose.json may have secure_time false: the trust file has secure_time_off")
	c.Flags().BoolVar(&strict, "strict", false, "warnings end with exit code 1 too")
	c.ValidArgsFunction = completeFiles("yaml", "yml", "json", "hcl")
	return c
}

// lintFailure keeps the two codes that the help text promises.
func lintFailure(err error) error {
	if Code(err) == ExitUsage {
		return err
	}
	return errors.New(err.Error())
}

func (a *App) lintOne(name string, vars fileFlags, rules appcompose.Rules) ([]lint.Finding, error) {
	if info, err := os.Stat(name); filepath.Ext(name) == ".hcl" || err == nil && info.IsDir() {
		return lintRendered(name, vars)
	}
	raw, err := a.input(name)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(name) == ".json" || appcompose.Looks(raw) {
		rules.KeyProviderID = named(raw)
		return within(name, lint.AppCompose(raw, rules)), nil
	}
	return within(name, lint.Lint(raw)), nil
}

// named is the key provider that a document names. The required one is in a trust file, which lint
// does not have.
func named(raw []byte) string {
	doc, err := appcompose.Read(raw)
	if err != nil {
		return ""
	}
	return doc.KeyProviderID
}

// within names the file of findings, and keeps their own names inside of it.
func within(name string, findings []lint.Finding) []lint.Finding {
	for i := range findings {
		findings[i].File = strings.TrimSuffix(name+":"+findings[i].File, ":")
	}
	return findings
}

// lintRendered checks the compose files that *.hcl files render.
func lintRendered(name string, f fileFlags) ([]lint.Finding, error) {
	vars, err := groupfile.CollectVars(f.vars, f.varFiles)
	if err != nil {
		return nil, usageError{err}
	}
	file, err := groupfile.Load([]string{name}, vars)
	if err != nil {
		return nil, err
	}
	out := []lint.Finding{}
	for _, g := range file.Groups {
		if len(g.Wrong) > 0 {
			return nil, &groupfile.Error{Problems: problemsOf(g)}
		}
		for _, f := range append(lint.Spec(g.Spec.Template.Compose, g.Spec.Template.Env), lint.Actions(g.Spec)...) {
			f.File = fmt.Sprintf("%s: group %s: %s", g.Position(f.File), g.Spec.Name, f.File)
			out = append(out, f)
		}
	}
	for _, c := range file.Clusters {
		rendered, err := coordinatorsOf(c)
		if err != nil {
			return nil, err
		}
		out = append(out, within(fmt.Sprintf("%s: cluster %s: coordinator.compose", name, c.Name), lint.Lint([]byte(rendered.Compose)))...)
		out = append(out, within(fmt.Sprintf("%s: cluster %s: coordinator.env", name, c.Name), lint.EnvNames(slices.Sorted(maps.Keys(rendered.Env))))...)
	}
	return out, nil
}

// coordinatorsOf renders the coordinators' compose file with an app id and a key in
// the form that creation will fill in.
func coordinatorsOf(c groupfile.Cluster) (groupfile.Coordinator, error) {
	trust := c.Trust
	trust.CoordinatorAppID = strings.Repeat("0", 40)
	text, err := json.Marshal(trust)
	if err != nil {
		return groupfile.Coordinator{}, fmt.Errorf("write the trust file: %w", err)
	}
	return c.Coordinator(groupfile.Facts{Cluster: c.Name, CoordinatorAppID: trust.CoordinatorAppID, TrustJSON: string(text), PlatformAPIKey: "key"})
}
