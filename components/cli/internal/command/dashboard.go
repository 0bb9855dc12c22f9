package command

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/genesis"
	"cadre.dev/cli/internal/dashboard"
	"cadre.dev/cli/internal/overview"
	"cadre.dev/client"
	"cadre.dev/platform"
)

func (a *App) dashboardCommand() *cobra.Command {
	listen := "127.0.0.1:0"
	c := &cobra.Command{
		Use: "dashboard", Short: "Serve a page about the cluster on this machine, with live rollouts", Args: cobra.NoArgs,
		Long: `Prints an address for the browser and serves the page until interrupted. The page asks the
coordinators with the token of the context; coordinators open no further port. It shows
groups, slots, rollouts, operations, overlay, admissions and the audit chain, and makes changes
with the confirmations of the commands.

The printed address has a secret that is new with each start: a browser without it gets no
answer. Only loopback addresses are served. From another machine, forward the port with ssh.`,
		Example: "  cadre dashboard\n  cadre dashboard --listen 127.0.0.1:8470    # ssh -L 8470:127.0.0.1:8470 HOST",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := dashboard.Listen(cmd.Context(), listen)
			if err != nil {
				return usageError{err}
			}
			defer l.Close()
			return a.withClient(func(cl *client.Client) error {
				look := a.looker(cl.Context())
				s := &dashboard.Server{Client: cl, Simulated: a.simulated, List: a.lister(cl.Context()), Assess: func(ctx context.Context) overview.Report {
					r, _ := look(ctx) // the report has the error as a finding
					return r
				}}
				return s.Serve(cmd.Context(), l, func(url string) {
					if a.output == "json" {
						_ = a.json(map[string]string{"url": url}) // a reader that went away needs no address
						return
					}
					a.say("dashboard of " + cl.Context().Cluster + ": " + url + "\nend it with Ctrl-C")
				})
			})
		},
	}
	c.Flags().StringVar(&listen, "listen", listen, "loopback address and port; port 0 takes a free port")
	return c
}

// lister lists the CVMs of an app on the platform of the context; nil without one.
func (a *App) lister(c client.Context) dashboard.Lister {
	if c.Platform.Driver == "" {
		return nil
	}
	return func(ctx context.Context, appID string) ([]platform.Instance, error) {
		api, _, err := genesis.OpenCloud(c.Platform, "")
		if err != nil {
			return nil, err
		}
		list, err := api.List(ctx, appID)
		slices.SortFunc(list, func(x, y platform.Instance) int { return strings.Compare(x.Name, y.Name) })
		return list, err
	}
}
