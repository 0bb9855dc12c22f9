package command

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/scrape"
	"cadre.dev/client"
)

const (
	// relist is how long a list of coordinators is used while all of them answer, and relistFailing
	// while one does not: the platform may have replaced it.
	relist        = 5 * time.Minute
	relistFailing = 30 * time.Second
)

func (a *App) metricsCommand() *cobra.Command {
	var listen string
	var remote, once bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "metrics", Short: "Serve the figures of all coordinators and agents to a Prometheus", Args: cobra.NoArgs,
		Long: `Serves http://ADDRESS/metrics. Each scrape asks all coordinators over the attested API
for their figures and for those of the agents that are connected to them. Between
scrapes nothing is asked. Each figure has the labels cluster and instance, the slot:
use honor_labels in Prometheus. cadre_scrape_up is 0 for a coordinator or an agent
without an answer, and cadre_scrape_errors counts the problems, which are logged too.

The figures are served without a login. So only loopback addresses are allowed, unless
--allow-remote is set.`,
		Example: `  cadre metrics --listen 127.0.0.1:9464
  cadre metrics --once | grep cadre_leader

  # prometheus.yml
  scrape_configs:
    - job_name: cadre
      honor_labels: true
      static_configs: [{targets: ["127.0.0.1:9464"]}]`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout < time.Second || timeout > 10*time.Minute {
				return usagef("--timeout %s: want 1s to 10m", timeout)
			}
			if err := scrape.CheckAddress(listen, remote); err != nil && !once {
				return usagef("--listen %s: %w", listen, err)
			}
			ctx, _, err := a.load()
			if err != nil {
				return err
			}
			f := &figures{app: a, ctx: ctx, timeout: timeout}
			defer f.close()
			if once {
				return f.once(cmd.Context())
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("listen at %s: %w", listen, err)
			}
			defer listener.Close() //nolint:errcheck // the server closes it too
			fmt.Fprintf(a.Err, "the figures of %s are at http://%s/metrics\n", ctx.Cluster, listener.Addr())
			server := &scrape.Server{Remote: remote, Collect: func(ctx context.Context) ([]byte, error) {
				text, _, err := f.collect(ctx)
				return text, err
			}}
			return server.Run(cmd.Context(), listener)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:9464", "address to serve at")
	c.Flags().BoolVar(&remote, "allow-remote", false, "allow an address that other machines reach")
	c.Flags().BoolVar(&once, "once", false, "print the figures and end")
	c.Flags().DurationVar(&timeout, "timeout", 8*time.Second, "how long one scrape may take; keep it below Prometheus' scrape_timeout")
	return c
}

// figures collects the figures of one cluster. Its methods run one at a time.
type figures struct {
	app     *App
	ctx     client.Context
	timeout time.Duration

	mu       sync.Mutex // held during a collection; guards all below
	list     []each
	unlisted error
	listedAt time.Time
	failing  bool // the last collection lacks a coordinator
	problems []string
}

// once prints one collection. Without the figures of any coordinator it ends with an error.
func (f *figures) once(ctx context.Context) error {
	text, got, err := f.collect(ctx)
	if err != nil {
		return err
	}
	if !got.Healthy() {
		return fmt.Errorf("get the figures of %s: no coordinator gave any", f.ctx.Cluster)
	}
	_, err = f.app.Out.Write(text)
	return err
}

// collect asks everyone, and logs each problem when it begins and ends.
func (f *figures) collect(ctx context.Context) ([]byte, scrape.Collection, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	begin := f.app.now()
	if age := begin.Sub(f.listedAt); f.list == nil || age > relist || f.failing && age > relistFailing {
		f.close()
		f.list, f.unlisted = f.app.everyCoordinator(ctx, f.ctx)
		f.listedAt = begin
	}
	var ask []scrape.Coordinator
	for _, one := range f.list {
		asker := scrape.Asker(one.client)
		if one.client == nil {
			asker = unasked{one.err}
		}
		ask = append(ask, scrape.Coordinator{Name: one.name, Asker: asker})
	}
	got := scrape.Collect(ctx, ask)
	got.Took = f.app.now().Sub(begin)
	f.failing = f.unlisted != nil || slices.ContainsFunc(got.Nodes, func(n scrape.Node) bool { return n.Coordinator && n.Text == nil })
	if f.unlisted != nil {
		got.Problems = append(got.Problems, "only one coordinator is asked, since the platform does not list them: "+f.unlisted.Error())
	}
	text, err := scrape.Merge(f.ctx.Cluster, &got)
	after := got.All()
	began, ended := scrape.News(f.problems, after)
	for _, p := range began {
		fmt.Fprintf(f.app.Err, "problem: %s\n", p)
	}
	for _, p := range ended {
		fmt.Fprintf(f.app.Err, "ended: %s\n", p)
	}
	f.problems = after
	return text, got, err
}

func (f *figures) close() { closeAll(f.list) }

// unasked is a coordinator that cannot be asked.
type unasked struct{ err error }

func (u unasked) CoordinatorMetrics(context.Context) (client.Metrics, []string, error) {
	return client.Metrics{}, nil, u.err
}

func (u unasked) AgentMetrics(context.Context, []string) ([]client.Metrics, error) {
	return nil, u.err
}
