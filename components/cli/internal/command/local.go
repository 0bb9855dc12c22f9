package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/localcloud"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/platform"
	"cadre.dev/platform/drivers"
)

func (a *App) localCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "local", Short: "A whole cloud on this Linux machine, for trying and testing"}
	c.PersistentFlags().StringVar(&dir, "state", localcloud.DefaultDir(), "the local cloud's state folder (also $CADRE_LOCAL_STATE)")
	c.AddCommand(a.localUp(&dir), a.localDown(&dir), a.localStatus(&dir), a.localPower(&dir, "start"), a.localPower(&dir, "stop"), a.localDelete(&dir), a.localFault(&dir), a.localExec(&dir), a.localLogs(&dir))
	return c
}

// local reaches the running daemon.
func (a *App) local(dir *string) (*localcloud.API, error) {
	info, err := localcloud.ReadInfo(*dir)
	if err != nil {
		return nil, err
	}
	return localcloud.NewAPI(info), nil
}

func (a *App) localStatus(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the local cloud's CVMs and their services", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := a.local(dir)
			if err != nil {
				return err
			}
			list, err := api.CVMs(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(list, func(s render.Style) string { return render.LocalCVMs(s, list) })
		},
	}
}

// localPlatform opens the cloud's platform for one CVM, which is named by its name or vm uuid.
func (a *App) localPlatform(ctx context.Context, dir, doing, name string) (p platform.Platform, vmUUID string, err error) {
	info, err := localcloud.ReadInfo(dir)
	if err != nil {
		return nil, "", err
	}
	list, err := localcloud.NewAPI(info).CVMs(ctx)
	if err != nil {
		return nil, "", err
	}
	list = slices.DeleteFunc(list, func(c localcloud.CVM) bool { return c.Name != name && c.VMUUID != name })
	hint := "see `cadre local status" + localcloud.At(dir) + "`"
	switch len(list) {
	case 0:
		return nil, "", &client.Error{Kind: client.NotFound, Doing: doing + " " + name, Message: "no CVM has that name", Hint: hint}
	case 1:
	default:
		return nil, "", &client.Error{Kind: client.Invalid, Doing: doing + " " + name, Message: fmt.Sprintf("%d CVMs have that name: give the vm uuid of one of them", len(list)), Hint: hint + " -o json"}
	}
	p, err = drivers.Open(drivers.Options{API: info.APIURL, Key: info.APIKey})
	return p, list[0].VMUUID, err
}

// localPower starts or stops a CVM as the platform's API does.
func (a *App) localPower(dir *string, verb string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " CVM", Short: strings.ToUpper(verb[:1]) + verb[1:] + " a CVM on its disk, as the platform's API does", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCVM(dir),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, id, err := a.localPlatform(cmd.Context(), *dir, verb, args[0])
			if err != nil {
				return err
			}
			call := api.Start
			if verb == "stop" {
				call = api.Stop
			}
			if _, err := call(cmd.Context(), id); err != nil {
				return err
			}
			a.say(fmt.Sprintf("%s of %s is accepted; see `cadre local status%s`", verb, args[0], localcloud.At(*dir)))
			return nil
		},
	}
}

// localDelete deletes a CVM as the platform's API does, past Cadre.
func (a *App) localDelete(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "delete CVM", Short: "Delete a CVM with its disk, as the platform's API does, past Cadre", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCVM(dir),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, id, err := a.localPlatform(cmd.Context(), *dir, "delete", args[0])
			if err != nil {
				return err
			}
			if err := api.Delete(cmd.Context(), id); err != nil {
				return err
			}
			a.say(args[0] + " is deleted, and its disk")
			return nil
		},
	}
}

func (a *App) localExec(dir *string) *cobra.Command {
	var service string
	c := &cobra.Command{
		Use: "exec CVM -- COMMAND...", Short: "Run a command inside a CVM", Args: cobra.MinimumNArgs(2), ValidArgsFunction: a.completeCVM(dir),
		Example: "  cadre local exec demo-postgres-0 --service patroni -- patronictl list",
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := a.local(dir)
			if err != nil {
				return err
			}
			out, err := api.Exec(cmd.Context(), args[0], service, args[1:])
			if err != nil {
				return err
			}
			if a.output == "json" {
				return a.json(out)
			}
			_, _ = io.WriteString(a.Out, out.Stdout)
			_, _ = io.WriteString(a.Err, out.Stderr)
			if out.Code != 0 {
				return silent{out.Code}
			}
			return nil
		},
	}
	c.Flags().StringVar(&service, "service", "", "run it in this service's container (default: in a separate sandbox)")
	return c
}

func (a *App) localLogs(dir *string) *cobra.Command {
	var tail int
	c := &cobra.Command{
		Use: "logs CVM [SERVICE]", Short: "Print the log of a service (default: of the CVM itself)", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.completeCVM(dir),
		Example: "  cadre local logs demo-postgres-0 patroni",
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := a.local(dir)
			if err != nil {
				return err
			}
			service := "cvm"
			if len(args) == 2 {
				service = args[1]
			}
			text, err := api.Logs(cmd.Context(), args[0], service, tail)
			if err != nil {
				return logsError(cmd, api, args[0], service, err)
			}
			_, err = io.WriteString(a.Out, text)
			return err
		},
	}
	c.Flags().IntVar(&tail, "tail", 0, "only the last so many `bytes` (default 65536)")
	return c
}

// logsError lists the services with a log when the requested one has none.
func logsError(cmd *cobra.Command, api *localcloud.API, cvm, service string, err error) error {
	found, lookErr := api.CVM(cmd.Context(), cvm)
	if lookErr != nil {
		return lookErr
	}
	names := []string{"cvm"}
	for _, s := range found.Services {
		names = append(names, s.Name)
	}
	if slices.Contains(names, service) {
		return err
	}
	return fmt.Errorf("%s has no service %q; it has: %s", cvm, service, strings.Join(names, ", "))
}

// completeCVM offers the names of CVMs for the first argument.
func (a *App) completeCVM(dir *string) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		api, err := a.local(dir)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		list, err := api.CVMs(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names := []string{}
		for _, c := range list {
			names = append(names, c.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
