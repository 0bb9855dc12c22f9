package coordinator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/admission"
	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/catalog"
	"cadre.dev/coordinator/internal/collateralcache"
	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/routes"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/selfheal"
	"cadre.dev/coordinator/internal/server"
	"cadre.dev/coordinator/internal/status"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/takeover"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/trace"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/voters"
	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/coordinator/internal/xds"
	"cadre.dev/overlay"
	"cadre.dev/store"
)

// Coordinator is one coordinator. Create it with New, run it once.
type Coordinator struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	// Set by identify and settle, constant afterwards.
	info      attest.Info
	boot      tls.Certificate
	finder    Verifier
	judging   attest.VerifierConfig // of both verifiers: one cache of collateral
	keep      *collateralcache.Cache
	quoter    admission.Quoter
	peers     *peering.Coordinators
	clusterID bootstrap.Stored

	// Set by assemble, constant afterwards.
	root        *keys.Root
	identity    *keys.Identity
	prover      *bootstrap.Prover
	store       *store.Consul
	consul      *supervise.Consul
	issuer      *tokens.Issuer
	secrets     *secrets.Service
	keeper      *secrets.Keeper
	rotator     *secrets.Rotator
	routes      *routes.Writer
	verifier    Verifier
	second      Verifier // nil: the trust file names none
	node        *overlay.Node
	views       *view.Watcher
	reports     *reports.Reports
	directory   *control.Directory
	control     *control.Service
	admission   *admission.Service
	consulProxy *consulproxy.Proxy
	xds         *xds.Relay
	catalog     *catalog.Writer
	platform    *observe.Platform
	reconcile   *reconcile.Reconciler
	takeover    *takeover.Watch
	healer      *selfheal.Healer
	voters      *voters.Voters
	server      *server.Server
	watermark   *watermark.Watermark
	metrics     *status.Metrics
	panics      *contain.Panics
	relocated   chan struct{} // capacity 1: the coordinators' locations changed
	confirmed   chan struct{} // closed: the records are of this coordinator's cluster ID

	mu   sync.Mutex
	cert tls.Certificate // guarded by mu
	// consulTokens are the accessors of the Consul server's tokens, oldest first; only genesis'
	// goroutine uses them.
	consulTokens []string
}

// New checks cfg and deps. It opens nothing before Run.
func New(cfg Config, deps Deps) (*Coordinator, error) {
	err := errors.Join(cfg.complete(), deps.complete())
	if deps.Verifier == nil {
		// Without collateral no Boot could be admitted. The fault is found at the start, before the
		// first agent needs it.
		_, noSource := cfg.Trust.CollateralSource(nil)
		err = errors.Join(err, noSource)
	}
	if err != nil {
		return nil, err
	}
	return &Coordinator{cfg: cfg, deps: deps, log: deps.Log, relocated: make(chan struct{}, 1), confirmed: make(chan struct{})}, nil
}

// Run runs the coordinator until ctx ends or a part of it fails. It releases the Lease before it
// stops Consul, so that a successor takes over at once.
func (c *Coordinator) Run(ctx context.Context) error {
	if err := c.identify(ctx); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it was stopped while it waited
		}
		return err
	}
	if err := c.assemble(ctx); err != nil {
		return err
	}
	api, err := new(net.ListenConfig).Listen(ctx, "tcp", c.cfg.APIListen)
	if err != nil {
		return fmt.Errorf("listen for operators: %w", err)
	}
	// A task that never begins does not close its listener.
	defer func() { _ = api.Close() }()
	local, err := new(net.ListenConfig).Listen(ctx, "tcp", c.cfg.StatusListen)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	// The parts below are needed for a clean shutdown of the others, so they end last.
	base := newTasks(context.WithoutCancel(ctx))
	defer base.stop()
	base.run("consul", c.consul.Run)
	base.run("overlay", c.node.Run)
	base.run("discovery", func(ctx context.Context) error { return c.peers.Run(ctx, c.relocate, c.healer.Note) })

	base.run("Consul proxy", c.consulProxy.Run)

	work := newTasks(ctx)
	defer work.stop()
	work.run("genesis", c.genesis)
	work.run("service mesh", c.afterConfirmed(c.giveMeshCA))
	work.run("agreement", c.agree)
	// It ends before Consul does, because it revokes its tokens.
	work.run("xds", c.xds.Run)
	work.run("coordinators", c.kept("coordinators", c.healer.Run))
	work.run("records", c.views.Run)
	work.run("state", func(ctx context.Context) error { return c.watermark.Follow(ctx, c.views) })
	work.run("catalog", c.afterConfirmed(c.kept("catalog", c.catalog.Run)))
	work.run("peers", c.kept("peers", c.followPeers))
	work.run("gossip key", c.kept("gossip key", c.keeper.Run))
	work.run("orders", c.kept("orders", c.control.Follow))
	work.run("leases", c.afterConfirmed(c.kept("leases", c.admission.KeepLeases)))
	work.run("credentials", c.kept("credentials", c.renewCredentials))
	work.run("reconcile", c.afterConfirmed(c.reconcile.Run))
	work.run("takeover", c.afterConfirmed(c.kept("takeover", c.takeover.Run)))
	serve := func(ctx context.Context) error { return c.server.Run(ctx, api) }
	if !c.clusterID.Recorded && (c.cfg.RestoreClusterID == "" || !c.waits()) {
		// Before the cluster ID is recorded no other record may be written. A coordinator that waits
		// for a backup serves operators its proof and the restore alone.
		serve = c.afterConfirmed(serve)
	}
	work.run("api", serve)
	if c.cfg.TracesEndpoint != "" {
		work.run("traces", c.kept("traces", trace.New(trace.Config{
			Endpoint: c.cfg.TracesEndpoint, Cluster: c.cfg.Cluster, Slot: c.cfg.Slot, Version: c.cfg.Version, Views: c.views, Log: c.log,
		}).Run))
	}
	work.run("status", func(ctx context.Context) error { return status.Run(ctx, local, c.pages()) })
	c.log.Info("coordinator started", "slot", c.cfg.Slot, "instance", c.info.InstanceID, "version", c.cfg.Version)

	select {
	case <-work.ctx.Done():
	case <-base.ctx.Done():
		return context.Cause(base.ctx) //nolint:contextcheck // why the tasks ended
	}
	if ctx.Err() != nil {
		c.log.Info("coordinator stops", "slot", c.cfg.Slot)
		return nil
	}
	return context.Cause(work.ctx) //nolint:contextcheck // why the tasks ended
}

// kept restarts a task after a panic. It is for tasks whose whole state comes from the records and
// from Consul.
func (c *Coordinator) kept(name string, task func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return c.panics.Keep(ctx, name, task) }
}
