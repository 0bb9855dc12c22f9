package simulated

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/measure"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/operate"
	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/status"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// listWithin bounds one list of the platform.
const listWithin = 10 * time.Second

// warmup is how long a coordinator waits for agents' reports after its start, as the real one does.
const warmup = reports.LiveWithin + 6*time.Second

// ErrUnreadable means that the coordinator has not read the records yet.
var ErrUnreadable = errors.New("the records are not readable yet")

// Config of a Coordinator. All fields are required unless they document nil.
type Config struct {
	// Cluster and the Slot of the coordinator.
	Cluster, Slot string
	// OwnApp is the coordinators' app on the platform, which no call may touch.
	OwnApp   string
	Store    store.Store
	Platform platform.Platform
	// Images that members may boot with.
	Images policy.ImagePolicy
	// Now is the coordinator's wall clock. Leases use the bubble's.
	Now func() time.Time
	// Failpoint is called at each named point between two effects; it may not return.
	Failpoint func(name string)
	// Passed is called with the result of each pass over a group.
	Passed func(result string)
	Log    *slog.Logger

	// Tokens of members, named after their Boots; nil: none.
	Tokens reconcile.Tokens
	// Members is Consul's knowledge of the cluster's members, and LeaseNode the node of the
	// sessions; nil: not used.
	Members   reconcile.Members
	LeaseNode string
	// Evicted is called for each evicted Boot with the reason; nil: not called.
	Evicted func(slot string, code policy.Code)
	// Figures are the metrics of the process; nil: not used.
	Figures *status.Metrics
	// Panics contains panics in the process; nil: a panic ends the simulation.
	Panics *contain.Panics
	// Wake is called when the answers to the Boots of a Slot may have changed, and must not block;
	// nil: not called.
	Wake func(slot string, r *controlv1.WakeRequest)
}

// Coordinator is one process. Its memory is lost with it: make a new one. Its methods may be called
// at any time, concurrently.
type Coordinator struct {
	cfg       Config
	views     *view.Watcher
	reports   *reports.Reports
	watermark *watermark.Watermark
	loop      *reconcile.Reconciler
}

// New returns a Coordinator; it does nothing before Run.
func New(cfg Config) *Coordinator {
	if cfg.Tokens == nil {
		cfg.Tokens = noTokens{}
	}
	c := &Coordinator{cfg: cfg, views: view.NewWatcher(cfg.Store, cfg.Log), reports: reports.New(cfg.Now)}
	c.reports.FollowClock() // its wall clock is the bubble's, with an offset
	listing := observe.NewPlatform(cfg.Platform, cfg.Now, listWithin)
	judge := judgeOf(cfg.OwnApp)
	turns := watermark.New(cfg.Store, c.reports, cfg.Now)
	c.watermark = turns
	c.views.CountFrom(turns.Zero)
	observer := observe.Observer{Cluster: cfg.Cluster, Store: cfg.Store, Views: c.views, Listing: listing, Reports: c.reports}
	if cfg.Figures == nil {
		cfg.Figures = status.NewMetrics()
	}
	cfg.Figures.Groups(c.latest)
	counts := counter{cfg.Figures, cfg.Passed}
	habits := cfg.Platform.Habits()
	timing := rollout.Timing{Settle: habits.Settle, StopFirst: habits.StopFirst}
	operator := operate.New(operate.Config{
		Cluster: cfg.Cluster, Timing: timing, Watermark: turns, Validator: judge, Measure: measure.New(cfg.Cluster, appcompose.Rules{}), Store: cfg.Store,
		Platform: cfg.Platform, Listing: listing, Wake: c.wake, Look: observer.Observe,
		Now: cfg.Now, Failpoint: cfg.Failpoint, Log: cfg.Log, Metrics: counts,
	})
	c.loop = reconcile.New(reconcile.Config{
		Cluster: cfg.Cluster, Slot: cfg.Slot, Store: cfg.Store, Views: c.views, Listing: listing, Reports: c.reports, Watermark: turns,
		Operator: operator, Tokens: cfg.Tokens, Validator: judge, Images: cfg.Images, Guard: c.guard, Members: cfg.Members, LeaseNode: cfg.LeaseNode,
		Timing: timing, Warmup: warmup, Now: cfg.Now, Failpoint: cfg.Failpoint, Log: cfg.Log, Metrics: counts, Panics: cfg.Panics,
	})
	c.views.Contain(cfg.Panics)
	return c
}

// judges by the coordinators' app. A verdict depends on the spec alone, and the check of a compose
// text is the most expensive part of the start of a process.
var judges sync.Map

func judgeOf(ownApp string) *specvalidate.Validator {
	judge, _ := judges.LoadOrStore(ownApp, specvalidate.New(ownApp, nil))
	return judge.(*specvalidate.Validator) //nolint:forcetypeassert // nothing else is stored
}

// Run reads the records, and leads while it has the Lease, until ctx ends.
func (c *Coordinator) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { _ = c.views.Run(ctx) }) // it ends with ctx
	all.Go(func() { _ = c.watermark.Follow(ctx, c.views) })
	all.Go(func() { _ = c.loop.Run(ctx) })
	if c.cfg.Wake != nil {
		all.Go(func() { control.FollowSlots(ctx, c.views, c.wake) })
	}
	all.Wait()
}

// StepDown gives the Lease up, as package reconcile describes.
func (c *Coordinator) StepDown(ctx context.Context) (bool, error) { return c.loop.StepDown(ctx) }

// Altered returns the keys of records that were modified in place, although the whole process
// shares them: see [view.View.Altered].
func (c *Coordinator) Altered() []string {
	v := c.latest()
	if v == nil {
		return nil
	}
	return v.Altered()
}

// Watermark returns the watermarks that this process knows.
func (c *Coordinator) Watermark(ctx context.Context) (watermark.State, error) {
	return c.watermark.State(ctx)
}

// Connect records an open session of the Boot until ended is called.
func (c *Coordinator) Connect(slot, boot string) (ended func()) { return c.reports.Connect(slot, boot) }

// Status reads the current status of a group from the store; zero: there is none yet.
func Status(ctx context.Context, s store.Store, name string) (group.Status, error) {
	st, err := view.ReadStatus(ctx, s, name)
	if errors.Is(err, store.ErrNotFound) {
		return group.Status{}, nil
	}
	return st, err
}

// latest returns the latest View; nil: nothing was read yet.
func (c *Coordinator) latest() *view.View {
	v, _ := c.views.Latest()
	return v
}

// counter calls passed for each pass in addition to counting it.
type counter struct {
	*status.Metrics
	passed func(result string)
}

// Pass counts one pass over a group.
func (c counter) Pass(name, result string, seconds float64) {
	c.passed(result)
	c.Metrics.Pass(name, result, seconds)
}

// noTokens: simulated members have none.
type noTokens struct{}

func (noTokens) Retire(context.Context, string, ...string) error { return nil }
func (noTokens) Sweep(context.Context) (tokens.Swept, error)     { return tokens.Swept{}, nil }
func (noTokens) StrayOperators(context.Context, func(context.Context) (map[string]bool, error)) (int, error) {
	return 0, nil
}
