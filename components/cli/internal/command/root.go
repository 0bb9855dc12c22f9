package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

// App is the shared state of all commands. The zero value with Out and Err set works; tests set the
// rest.
type App struct {
	Out, Err io.Writer
	// In is standard input, nil: the process's.
	In io.Reader
	// Now is the clock of the pictures; nil: time.Now.
	Now func() time.Time
	// Dial reaches coordinators; the zero value dials the gateway.
	Dial client.Options
	// Version of this program.
	Version string

	context string
	output  string
	// simulated: the cluster whose context was loaded has another root than Intel's.
	simulated bool
}

// Run carries out one command line and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.root() //nolint:contextcheck // commands get theirs when they run
	root.SetArgs(args)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	strictCompletion(root)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(a.Err, "cadre: %v\n", err)
	}
	return Code(err)
}

// Tree returns every command of cadre, for the generator of docs/reference/cli.md.
func Tree() *cobra.Command {
	return new(App).root()
}

// The values of -o. A command with a wide table has an annotation of that name.
const (
	formJSON = "json"
	formWide = "wide"
)

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "cadre",
		Short: "Operate stateful clusters of confidential VMs",
		Long: `cadre makes clusters of confidential VMs, changes them one member at a time,
and reports each change with its reason.

` + exitHelp,
		Example: `  cadre local up clusters/postgres       # try Cadre: a whole cloud on this machine
  cadre cluster create cluster.hcl       # make a cluster
  cadre group apply postgres.hcl --wait  # make or change a group
  cadre status                           # see whether a person is needed`,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			switch _, wide := cmd.Annotations[formWide]; {
			case a.output == "", a.output == formJSON, wide && a.output == formWide:
				return nil
			case wide:
				return usagef("-o %s: the other forms are json and wide", a.output)
			}
			return usagef("-o %s: the only other form is json", a.output)
		},
	}
	root.PersistentFlags().StringVar(&a.context, "context", "", "cluster name or context file (default $CADRE_CONTEXT, then the only one in ~/.config/cadre)")
	root.PersistentFlags().StringVarP(&a.output, "output", "o", "", "json instead of a table")
	root.SetFlagErrorFunc(wrongFlag)
	for _, h := range a.headings() {
		root.AddGroup(&cobra.Group{ID: h.title, Title: h.title + ":"})
		for _, c := range h.commands {
			c.GroupID = h.title
		}
		root.AddCommand(h.commands...)
	}
	root.SetHelpCommandGroupID(onThisMachine)
	root.SetCompletionCommandGroupID(onThisMachine)
	completeOr(root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		names, err := client.Contexts()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveDefault
	}))
	usageArgs(root)
	strictHelp(root)
	return root
}

// onThisMachine is the heading of the commands that ask no cluster.
const onThisMachine = "On this machine"

// heading is a heading of the help, with its commands.
type heading struct {
	title    string
	commands []*cobra.Command
}

func (a *App) headings() []heading {
	return []heading{
		{"Look", []*cobra.Command{a.statusCommand(), a.queueCommand(), a.overridesCommand(), a.logsCommand(), a.dashboardCommand(), a.metricsCommand(), a.overlayCommand(), a.auditCommand(), a.reportCommand()}},
		{"Change", []*cobra.Command{a.groupCommand(), a.deploymentCommand(), a.rolloutCommand(), a.instanceCommand(), a.operationCommand(), a.secretCommand(), a.gateCommand(), a.limitsCommand(), a.freezeCommand(), a.unfreezeCommand()}},
		{"Clusters, operators and trust", []*cobra.Command{a.clusterCommand(), a.operatorCommand(), a.admissionCommand(), a.collateralCommand(), a.imageCommand(), a.kmsAuthCommand()}},
		{onThisMachine, []*cobra.Command{a.localCommand(), a.composeCommand(), a.versionCommand()}},
	}
}

// completeOr drops an error that only a doubly registered flag could give.
func completeOr(error) {}

func (a *App) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// load reads the cluster context that the flags name, and notes the root for the output of the
// command. A part that answers several requests at once reads with readContext.
func (a *App) load() (client.Context, string, error) {
	c, path, err := a.readContext()
	a.simulated = err == nil && c.Simulated()
	return c, path, err
}

// readContext is load without the note. It may run in parallel.
func (a *App) readContext() (client.Context, string, error) {
	path, err := client.Path(a.context)
	if err != nil {
		return client.Context{}, "", err
	}
	c, err := client.LoadContext(path)
	return c, path, err
}

// connect prepares a client of the cluster that the flags name.
func (a *App) connect() (*client.Client, error) {
	c, _, err := a.load()
	if err != nil {
		return nil, err
	}
	return client.Dial(c, a.Dial)
}

// withClient runs fn with a client and closes it.
func (a *App) withClient(fn func(*client.Client) error) error {
	cl, err := a.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	return fn(cl)
}

// show prints data as JSON if requested, else as a table. The output about a cluster under another
// root starts with the SIMULATED banner.
func (a *App) show(data any, picture func(render.Style) string) error {
	if a.output == "json" {
		return a.json(data)
	}
	s := a.style()
	_, err := io.WriteString(a.Out, render.Banner(s, a.simulated)+picture(s))
	return err
}

func (a *App) json(data any) error {
	if a.simulated {
		marked, err := markSimulated(data)
		if err != nil {
			return err
		}
		data = marked
	}
	enc := json.NewEncoder(a.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(data)
}

// markSimulated puts "simulated": true first in an object, and in each object of a
// list: a program that reads one element alone learns it too.
func markSimulated(data any) (json.RawMessage, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		return nil, err
	}
	raw := bytes.TrimSpace(text.Bytes())
	if len(raw) > 0 && raw[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		parts := make([][]byte, len(list))
		for i, one := range list {
			parts[i] = markObject(one)
		}
		return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]")), nil
	}
	return markObject(raw), nil
}

func markObject(raw []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return raw // no object
	}
	if string(fields["simulated"]) == "true" {
		return raw
	}
	if _, has := fields["simulated"]; has {
		return raw // the answer has its own flag
	}
	mark := `{"simulated":true`
	if len(fields) > 0 {
		mark += ","
	}
	return append([]byte(mark), bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("{"))...)
}

// say prints a line for people; with -o json it goes to the error stream.
func (a *App) say(text string) {
	w := a.Out
	if a.output == "json" {
		w = a.Err
	}
	fmt.Fprintln(w, text)
}

// style follows the terminal: colours and cut lines on one, neither elsewhere.
func (a *App) style() render.Style {
	fd, ok := a.terminal()
	if !ok {
		return render.Style{}
	}
	s := render.Style{Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(fd); err == nil {
		s.Width = width
	}
	return s
}

func (a *App) terminal() (fd int, ok bool) {
	f, isFile := a.Out.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}
