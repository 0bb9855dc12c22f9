package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/bundle"
	"cadre.dev/cli/internal/overview"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

// Bounds of the slots of which a report has parts of their own.
const (
	reportOverlay  = 32
	reportExplains = 32
)

func (a *App) reportCommand() *cobra.Command {
	var file string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "report", Short: "Write an archive about the whole cluster, for its support", Args: cobra.NoArgs,
		Long: `Collects the state of the cluster: cadre status, versions, trust, the figures of
coordinators and agents, overlay, admissions, operations and overrides, and of each group
its spec, status, plan, slots and rollouts. Every file is an answer of the API with the
rights of the context's token.

index.json lists all parts, and the error of a part that failed. Tokens and keys of the
context are removed from every part, and the values of each env, while their names stay.
Compose files are included: a reader of the archive sees them. FILE has mode 0600, and
an existing file is refused.`,
		Example: "  cadre report -o demo-report.tar.gz\n  tar -xzOf demo-report.tar.gz index.json | jq '.parts[] | select(.error)'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case file == "":
				return usagef("-o FILE is missing: the archive to write")
			case file == "json":
				return usagef("-o json: here -o names the archive to write, such as report.tar.gz")
			case timeout < time.Second:
				return usagef("--timeout %s: want 1s or more", timeout)
			}
			ctx, _, err := a.load()
			if err != nil {
				return err
			}
			return a.report(cmd.Context(), ctx, file, timeout)
		},
	}
	// It shadows the global flag, which chooses between a table and JSON: an archive is neither.
	c.Flags().StringVarP(&file, "output", "o", "", "the archive to write (required)")
	c.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long the parts may take; later ones are missing")
	return c
}

func (a *App) report(ctx context.Context, c client.Context, file string, timeout time.Duration) error {
	facts, asked := a.look(ctx, c, true)
	list, _ := a.everyCoordinator(ctx, c)
	defer closeAll(list)
	parts := append(a.ownParts(c, facts, asked), a.coordinatorParts(list)...)
	parts = append(parts, a.metricsPart(c))
	if cl := answering(facts, list); cl != nil {
		parts = append(parts, recordParts(cl, facts)...)
		parts = append(parts, logParts(cl, facts)...)
	}
	index := bundle.Index{Cluster: c.Cluster, At: a.now().UTC(), Version: a.version()}
	index, err := bundle.Write(ctx, file, timeout, index, bundle.Sorted(parts), secretsOf(c))
	if err != nil {
		return err
	}
	a.say(fmt.Sprintf("%s: %d parts, %d of them with an error (see %s)", file, len(index.Parts), index.Errors(), bundle.IndexName))
	for _, e := range index.Parts {
		if e.Error != "" {
			a.say(fmt.Sprintf("  %s: %s", e.Path, oneLine(errors.New(e.Error))))
		}
	}
	if asked != nil {
		return fmt.Errorf("the archive has only the parts that need no coordinator: %w", asked)
	}
	return nil
}

// secretsOf are the secrets that this machine knows of the cluster.
func secretsOf(c client.Context) bundle.Secrets {
	values := []string{c.Token, c.Platform.APIKey, c.CoordinatorAppNonce}
	if c.Platform.APIKeyEnv != "" {
		values = append(values, os.Getenv(c.Platform.APIKeyEnv))
	}
	return bundle.NewSecrets(values...)
}

// answering is the client of the leader, else of any coordinator that answered; nil: none did.
func answering(f overview.Facts, list []each) (found *client.Client) {
	for i, said := range f.Coordinators {
		if i < len(list) && said.Answered && list[i].client != nil && (found == nil || said.Leader == said.Name) {
			found = list[i].client
		}
	}
	return found
}

// ownParts need no further question.
func (a *App) ownParts(c client.Context, facts overview.Facts, asked error) []bundle.Part {
	r := overview.Assess(facts)
	ready := func(name string, content any, err error) bundle.Part {
		return bundle.Part{Path: name, Make: func(context.Context) (any, error) { return content, err }}
	}
	return []bundle.Part{
		ready("status.json", r, asked),
		ready("status.txt", render.Banner(render.Style{}, a.simulated)+render.Overview(render.Style{}, r), nil),
		ready("versions.json", map[string]any{"cadre": a.version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "coordinators": facts.Coordinators}, nil),
		// Each field by name: a new field of the context is no part of an archive until it is added here.
		ready("context.json", map[string]any{
			"cluster": c.Cluster, "cluster_id": c.ClusterID, "ca_pem": c.CAPEM, "gateway": c.Gateway, "coordinator_app_id": c.CoordinatorAppID,
			"coordinator_compose_hashes": c.CoordinatorComposeHashes, "trust": c.Trust, "platform_driver": c.Platform.Driver, "platform_api_url": c.Platform.APIURL,
		}, nil),
	}
}

// coordinatorParts are the views of each coordinator.
func (a *App) coordinatorParts(list []each) (parts []bundle.Part) {
	for _, one := range list {
		folder := "coordinators/" + bundle.Name(one.name)
		ask := func(name string, call func(ctx context.Context, cl *client.Client) (any, error)) {
			parts = append(parts, bundle.Part{Path: path.Join(folder, name), Make: func(ctx context.Context) (any, error) {
				if one.client == nil {
					return nil, one.err
				}
				return call(ctx, one.client)
			}})
		}
		ask("cluster.json", func(ctx context.Context, cl *client.Client) (any, error) { return got(cl.Cluster(ctx)) })
		ask("overlay.json", func(ctx context.Context, cl *client.Client) (any, error) { return got(cl.Overlay(ctx, "", "")) })
	}
	return parts
}

// metricsPart has the figures that `cadre metrics` serves.
func (a *App) metricsPart(c client.Context) bundle.Part {
	return bundle.Part{Path: "metrics.txt", Make: func(ctx context.Context) (any, error) {
		quiet := *a
		quiet.Err = &strings.Builder{}
		f := &figures{app: &quiet, ctx: c, timeout: factsTime}
		defer f.close()
		text, collected, err := f.collect(ctx)
		if problems := collected.All(); err == nil && len(problems) > 0 {
			err = errors.New(strings.Join(problems, "; "))
		}
		return text, err
	}}
}

// got has no content with an error.
func got[T any](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// recordParts are those of the records of one coordinator.
func recordParts(cl *client.Client, facts overview.Facts) (parts []bundle.Part) {
	add := func(name string, call func(ctx context.Context) (any, error)) {
		parts = append(parts, bundle.Part{Path: name, Make: call})
	}
	add("admissions.json", func(ctx context.Context) (any, error) { return got(cl.Admissions(ctx, "")) })
	add("tcb.json", func(ctx context.Context) (any, error) { return got(cl.TCB(ctx)) })
	add("operations.json", func(ctx context.Context) (any, error) { return got(cl.Operations(ctx, "", true)) })
	add("requests.json", func(ctx context.Context) (any, error) { return got(cl.Requests(ctx, "")) })
	add("overrides.json", func(ctx context.Context) (any, error) { return got(cl.Overrides(ctx, "")) })
	add("secret-epochs.json", func(ctx context.Context) (any, error) { return got(cl.Secrets(ctx, "")) })
	for _, g := range facts.Groups {
		folder := "groups/" + bundle.Name(g.Name)
		add(folder+"/group.json", func(ctx context.Context) (any, error) { return got(cl.Group(ctx, g.Name)) })
		add(folder+"/plan.json", func(ctx context.Context) (any, error) { return got(cl.Plan(ctx, g.Name, nil)) })
		add(folder+"/rollouts.json", func(ctx context.Context) (any, error) { return got(cl.Rollouts(ctx, g.Name)) })
		add(folder+"/slots.json", func(ctx context.Context) (any, error) { return got(cl.Instances(ctx, g.Name)) })
	}
	explained := 0
	for i, s := range facts.Slots {
		folder := "slots/" + bundle.Name(s.Slot)
		if i < reportOverlay {
			add(folder+"/overlay.json", func(ctx context.Context) (any, error) { return got(cl.Overlay(ctx, s.Slot, "")) })
		}
		if cmp.Or(string(s.State), "?") != "Available" && explained < reportExplains {
			explained++
			add(folder+"/instance.json", func(ctx context.Context) (any, error) { return got(cl.Instance(ctx, s.Slot)) })
			add(folder+"/admission.json", func(ctx context.Context) (any, error) { return got(cl.ExplainAdmission(ctx, s.Slot)) })
		}
	}
	return parts
}

// reportLogs bounds the instances whose agents' logs are in the archive.
const reportLogs = 32

// logParts are the logs of the coordinators, and of agents whose Slot is not available. Logs of services
// are left out: a workload may write secrets of its own.
func logParts(cl *client.Client, facts overview.Facts) (parts []bundle.Part) {
	add := func(slot, service string) {
		parts = append(parts, bundle.Part{Path: "logs/" + bundle.Name(slot) + ".log", Make: func(ctx context.Context) (any, error) {
			var text []byte
			err := cl.Logs(ctx, client.LogOptions{Slot: slot, Service: service}, func(dropped uint64, data []byte) error {
				if dropped > 0 {
					text = fmt.Appendf(text, "... %d bytes dropped\n", dropped)
				}
				text = append(text, data...)
				return nil
			})
			return text, err
		}})
	}
	for n := range len(facts.Coordinators) {
		add(fmt.Sprintf("coordinator-%d", n), "")
	}
	left := reportLogs
	for _, s := range facts.Slots {
		if cmp.Or(string(s.State), "?") != "Available" && left > 0 {
			left--
			add(s.Slot, "cadre-agent")
		}
	}
	return parts
}
