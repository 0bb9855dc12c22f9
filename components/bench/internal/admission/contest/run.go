package contest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/bench/internal/admission/server"
	"cadre.dev/bench/internal/agents"
	"cadre.dev/bench/internal/consul"
	"cadre.dev/bench/internal/world"
	"cadre.dev/coordinator/coordinatortest"
	"cadre.dev/core/policy"
	"cadre.dev/figures"
	"cadre.dev/lab/worker"
	"cadre.dev/store"
)

// Options of a run.
type Options struct {
	// Rounds is how often everything is measured, Agents how many Slots there are.
	Rounds, Agents int
	// QuoteLatency is the duration of a coordinator's quote. SlowQuote is the duration in one more
	// storm after the rounds; 0: none.
	QuoteLatency, SlowQuote time.Duration
	// StormLimit is after how long an agent that is not in counts as lost.
	StormLimit time.Duration
	// Only measures the parts that match; nil: all. Their names are verification,
	// admissions and renewals, storm.
	Only *regexp.Regexp
	// Consul is the program.
	Consul string
	// Log takes the coordinators' output, Progress the steps of the run.
	Log      *os.File
	Progress io.Writer
}

// stormCoordinators is how many there are in a storm, in one process.
const stormCoordinators = 3

// lab is shared by all measurements.
type lab struct {
	options  Options
	machines *world.Machines
	consul   *consul.Server
	store    *store.Consul
	role     coordinatortest.Config
	judge    agents.Judge
	agents   []*agents.Agent
	cloud    *attestsim.Cloud
}

// part is a measurement of a round.
type part struct {
	name string
	do   func(context.Context, *results) error
}

// Run measures everything.
func Run(ctx context.Context, options Options) (figures.Result, error) {
	r := &results{rounds: options.Rounds, agents: options.Agents}
	dir, err := os.MkdirTemp("", "cadre-bench-admission-")
	if err != nil {
		return figures.Result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := newLab(ctx, options, dir)
	if err != nil {
		return figures.Result{}, err
	}
	defer l.close()
	if err := l.first(ctx, r); err != nil {
		return figures.Result{}, fmt.Errorf("first admissions: %w", err)
	}
	parts := []part{
		{"verification", l.verification}, {"admissions and renewals", l.oneCoordinator},
		{"storm", func(ctx context.Context, r *results) error {
			s, err := l.storm(ctx, options.QuoteLatency)
			r.storms = append(r.storms, s)
			return err
		}},
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return options.Only != nil && !options.Only.MatchString(p.name) })
	for round := range options.Rounds {
		rand.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		for _, part := range parts {
			l.say("round %d of %d: %s", round+1, options.Rounds, part.name)
			if err := part.do(ctx, r); err != nil {
				return figures.Result{}, fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	if options.SlowQuote > 0 && len(r.storms) > 0 {
		l.say("a storm with quotes that take %v", options.SlowQuote)
		if r.slow, err = l.storm(ctx, options.SlowQuote); err != nil {
			return figures.Result{}, fmt.Errorf("storm with slow quotes: %w", err)
		}
	}
	return r.report(options), nil
}

func (l *lab) say(format string, args ...any) {
	_, _ = fmt.Fprintf(l.options.Progress, time.Now().Format("15:04:05")+" "+format+"\n", args...)
}

func newLab(ctx context.Context, options Options, dir string) (l *lab, err error) {
	l = &lab{options: options}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.cloud, err = attestsim.OpenCloud(filepath.Join(dir, "cloud")); err != nil {
		return nil, err
	}
	if l.machines, err = world.StartMachines(ctx, l.cloud, dir, stormCoordinators); err != nil {
		return nil, err
	}
	if l.consul, err = consul.Start(ctx, options.Consul, dir); err != nil {
		return nil, err
	}
	if l.store, err = store.NewConsul(store.ConsulConfig{Address: l.consul.Address, Token: l.consul.Token}); err != nil {
		return nil, err
	}
	// The Term of a leader, which has nothing else to do here.
	lease, err := l.store.Acquire(ctx, "coordinator-0")
	if err != nil {
		return nil, err
	}
	if err := lease.Release(ctx); err != nil {
		return nil, err
	}
	l.role = coordinatortest.Config{
		Cluster: world.Cluster, ClusterID: world.ClusterID, AppID: world.CoordinatorApp, Domain: world.Domain,
		Consul: l.consul.Address, Token: l.consul.Token, PCCS: l.machines.PCCS, RootPEM: l.cloud.RootPEM(), Guests: l.machines.Sockets,
		Images: policy.ImagePolicy{Images: l.cloud.Images(world.OSImage), KeyProviderName: "kms", KeyProviderID: l.cloud.KeyProviderID(), AllowSimulated: true},
	}
	verifier, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: l.cloud.RootPEM()})
	if err != nil {
		return nil, err
	}
	l.judge = func(ctx context.Context, ev attest.Evidence, reportData [64]byte) error {
		claims, err := verifier.Verify(ctx, ev, reportData)
		if err == nil && claims.AppID != world.CoordinatorApp {
			err = fmt.Errorf("it is of app %s", claims.AppID)
		}
		return err
	}
	return l, l.populate(ctx)
}

// populate boots the agents' CVMs and writes the leader's records.
func (l *lab) populate(ctx context.Context) error {
	slots := world.Slots(l.options.Agents)
	l.say("booting %d simulated CVMs", len(slots))
	l.agents = make([]*agents.Agent, len(slots))
	instances := make([]string, len(slots))
	if err := world.Each(2, len(slots), func(i int) (err error) {
		if l.agents[i], err = agents.New(l.cloud, slots[i]); err == nil {
			instances[i] = l.agents[i].InstanceID()
		}
		return err
	}); err != nil {
		return err
	}
	return world.Record(ctx, l.store, slots, instances)
}

func (l *lab) close() {
	if l.store != nil {
		l.store.Close()
	}
	if l.consul != nil {
		l.consul.Stop()
	}
	if l.machines != nil {
		_ = l.machines.Stop() // of this process, and nothing waits for them
	}
}

// coordinators is the measured process.
type coordinators struct {
	*worker.Process
	addresses []string
}

// start runs n coordinators that have read all records, after the leases of all Boots
// have ended. The caller must Stop them.
func (l *lab) start(ctx context.Context, n int) (*coordinators, error) {
	if err := world.EndLeases(ctx, l.store); err != nil {
		return nil, fmt.Errorf("end leases: %w", err)
	}
	role := l.role
	role.Guests = role.Guests[:n]
	p, err := worker.Start(ctx, worker.Here{}, server.Name, role, l.options.Log)
	if err != nil {
		return nil, err
	}
	c := &coordinators{Process: p}
	err = errors.Join(
		p.Call(ctx, "await", coordinatortest.Await{Slots: l.options.Agents}, nil),
		p.Call(ctx, "addresses", server.Nothing{}, &c.addresses),
	)
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return c, nil
}

// used is CPU time of all parties over some work.
type used struct{ ours, consul, agents, wall time.Duration }

// during measures f.
func (l *lab) during(c *coordinators, f func() error) (u used, err error) {
	look := func() (now used) {
		var errs [3]error
		now.ours, errs[0] = c.CPU()
		now.consul, errs[1] = l.consul.CPU()
		now.agents, errs[2] = worker.CPUOf(os.Getpid())
		err = errors.Join(append(errs[:], err)...)
		return now
	}
	before, began := look(), time.Now()
	if failed := f(); failed != nil {
		return u, failed
	}
	u.wall = time.Since(began)
	after := look()
	u.ours, u.consul, u.agents = after.ours-before.ours, after.consul-before.consul, after.agents-before.agents
	return u, err
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
