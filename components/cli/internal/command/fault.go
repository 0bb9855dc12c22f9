package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/localcloud"
	"cadre.dev/cli/internal/render"
)

func (a *App) localFault(dir *string) *cobra.Command {
	c := &cobra.Command{
		Use: "fault", Short: "Make the local cloud misbehave",
		Long: `Faults of the cloud's API hit the next calls that match. Faults of a CVM happen at
once: kill ends it as a host crash would, isolate cuts its network, pause stops its
processes.`,
	}
	c.AddCommand(a.faultAPI(dir), a.faultList(dir), a.faultClear(dir), a.faultHost(dir))
	for _, f := range []struct{ use, action, short, done, back string }{
		{"kill", "kill", "End a CVM at once, as a host crash would", "killed", ""},
		{"isolate", "isolate", "Cut a CVM off the network", "cut off", "rejoin"},
		{"rejoin", "rejoin", "Connect a CVM again", "connected", ""},
		{"lose-disk", "lose-disk", "Remove the data disk of a stopped CVM", "without its disk", ""},
	} {
		c.AddCommand(&cobra.Command{
			Use: f.use + " CVM", Short: f.short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCVM(dir), Example: "  cadre local fault " + f.use + " demo-postgres-1",
			RunE: func(cmd *cobra.Command, args []string) error {
				done := f.done
				if f.back != "" {
					done += fmt.Sprintf("; take it back with `cadre local fault %s %s%s`", f.back, args[0], localcloud.At(*dir))
				}
				return a.act(cmd, dir, args[0], f.action, nil, done)
			},
		})
	}
	for _, f := range []struct{ use, short, done string }{
		{"pause", "Stop all processes of a CVM or of one service", "paused"},
		{"resume", "Resume paused processes", "running again"},
	} {
		var service string
		sub := &cobra.Command{
			Use: f.use + " CVM", Short: f.short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCVM(dir), Example: "  cadre local fault " + f.use + " demo-postgres-1",
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.act(cmd, dir, args[0], f.use, map[string]string{"service": service}, f.done)
			},
		}
		sub.Flags().StringVar(&service, "service", "", "only this service")
		c.AddCommand(sub)
	}
	return c
}

func (a *App) act(cmd *cobra.Command, dir *string, cvm, action string, body any, done string) error {
	api, err := a.local(dir)
	if err != nil {
		return err
	}
	if err := api.Act(cmd.Context(), cvm, action, body); err != nil {
		return err
	}
	a.say(cvm + " is " + done)
	return nil
}

func (a *App) faultAPI(dir *string) *cobra.Command {
	var f localcloud.Fault
	c := &cobra.Command{
		Use: "api", Short: "Make the cloud's API fail", Args: cobra.NoArgs,
		Example: `  # the next in-place update of postgres-1 happens, but its answer is lost
  cadre local fault api --match '^PATCH .*/compose_file$' --cvm demo-postgres-1 --effect reset_after
  # the next three calls are throttled
  cadre local fault api --match . --effect status --status 429 --times 3`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Match == "" || f.Effect == "" {
				return usagef("--match and --effect are required")
			}
			api, err := a.local(dir)
			if err != nil {
				return err
			}
			armed, err := api.AddFault(cmd.Context(), f)
			if err != nil {
				return err
			}
			return a.show(armed, func(render.Style) string { return fmt.Sprintf("fault %d is armed\n", armed.ID) })
		},
	}
	c.Flags().StringVar(&f.Match, "match", "", "regular expression on \"METHOD /path\" (required)")
	c.Flags().StringVar(&f.CVM, "cvm", "", "only calls about this CVM")
	c.Flags().StringVar(&f.Host, "host", "", "only calls to this host of platform vmm")
	c.Flags().StringVar(&f.Effect, "effect", "", "timeout_before, timeout_after, reset_before, reset_after, status, status_after or delay (required)")
	c.Flags().IntVar(&f.Times, "times", 1, "how many calls it hits")
	c.Flags().IntVar(&f.Status, "status", 0, "HTTP status, for status and status_after")
	c.Flags().StringVar(&f.Delay, "delay", "", "for delay, and how long a timeout keeps its caller, e.g. 5s")
	c.Flags().StringVar(&f.Body, "body", "", "body of the answer, for status and status_after")
	return c
}

func (a *App) faultList(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the armed API faults", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := a.local(dir)
			if err != nil {
				return err
			}
			list, err := api.Faults(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(list, func(s render.Style) string { return render.LocalFaults(s, list) })
		},
	}
}

func (a *App) faultClear(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "clear", Short: "Disarm all API faults", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := a.local(dir)
			if err != nil {
				return err
			}
			if err := api.ClearFaults(cmd.Context()); err != nil {
				return err
			}
			a.say("no API fault is armed")
			return nil
		},
	}
}
