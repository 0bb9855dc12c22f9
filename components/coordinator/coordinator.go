package coordinator

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/admission"
	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/catalog"
	"cadre.dev/coordinator/internal/collateralcache"
	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/highwater"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/measure"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/operate"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/routes"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/selfheal"
	"cadre.dev/coordinator/internal/server"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/status"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/takeover"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/tolerance"
	"cadre.dev/coordinator/internal/trace"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/voters"
	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/coordinator/internal/xds"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/secret"
	"cadre.dev/overlay"
	"cadre.dev/overlaystatus"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// renewEvery is a third of the certificates' life: two renewals may fail.
const renewEvery = keys.LeafTTL / 3

// warmup is the time that agents need to find a restarted coordinator and to report to it: a
// re-dial and a report, each of some seconds.
const warmup = reports.LiveWithin + 6*time.Second

// admitWarmup is warmup for a Slot that another Boot requests. A live agent dials an absent
// coordinator at least every 2 s, and a refusing one every 5 s. It reports on its first Session,
// and a dial takes a few seconds at most. The leader's plans wait longer, because they need most
// agents.
const admitWarmup = 8 * time.Second

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

// identify determines this coordinator's identity, and prepares its proof for others.
func (c *Coordinator) identify(ctx context.Context) error {
	if err := supervise.InMemory(c.cfg.RunDir, c.consulRunDir()); err != nil {
		return fmt.Errorf("run dir: %w", err)
	}
	var err error
	if c.info, err = c.deps.Guest.Info(ctx); err != nil {
		return fmt.Errorf("read this CVM's identity from the guest agent: %w", err)
	}
	if _, err := attest.CheckMeasured(ctx, c.deps.Guest, c.cfg.TrustFile, c.cfg.RevisionMark); err != nil {
		return fmt.Errorf("verify the inputs of this coordinator (trust file, mark): %w", err)
	}
	if want := c.cfg.Trust.CoordinatorAppID; want != "" && want != c.info.AppID {
		return fmt.Errorf("this CVM belongs to app %s, the trust file names %s as the coordinators' app", c.info.AppID, want)
	}
	if c.info.AppID == "" {
		// Without its app, the coordinator could not reject a spec that asks for CVMs of this app.
		return errors.New("the guest agent names no app: the coordinators do not know their own app")
	}
	if c.boot, err = bootstrap.NewBoot(); err != nil {
		return err
	}
	c.peers = peering.NewCoordinators(c.cfg.Cluster, c.info.AppID, c.cfg.Replicas, c.deps.Platform, c.log)
	return c.assembleQuoter()
}

// assemble creates all parts, starting with the keys of the cluster ID.
func (c *Coordinator) assemble(ctx context.Context) error {
	var err error
	if c.root, err = keys.Derive(ctx, c.deps.Guest, c.cfg.Cluster, c.clusterID.ClusterID); err != nil {
		return err
	}
	if c.identity, err = keys.NewIdentity(c.root.CA(), c.cfg.Slot, c.cfg.Trust.AllowSimulated); err != nil {
		return err
	}
	// The gateway takes either id in the name of the operators' API.
	for _, id := range []string{c.info.AppID, c.info.InstanceID} {
		c.identity.AlsoNamed(fmt.Sprintf("%s-%ds.%s", id, group.CoordinatorAPIPort, c.cfg.Gateway.Domain))
	}
	epoch, err := secrets.StartEpoch(c.cfg.StateDir)
	if err != nil {
		return err
	}
	gossip, err := c.root.Gossip(ctx, epoch)
	if err != nil {
		return err
	}
	consul := c.consulConfig(gossip)
	c.consul = supervise.New(consul, func(now time.Time) ([]byte, []byte, error) {
		return c.root.CA().ConsulTLS(c.cfg.Slot, c.cfg.Datacenter, c.cfg.Trust.AllowSimulated, now)
	}, c.log)
	if c.store, err = store.NewConsul(store.ConsulConfig{Address: consul.Address(), Token: c.root.ManagementToken().RevealString()}); err != nil {
		return err
	}
	if c.issuer, err = tokens.New(consul.Address(), c.root.ManagementToken().RevealString(), tokens.TTL); err != nil {
		return err
	}
	c.secrets = secrets.New(c.root, c.store)
	if err := c.assembleVerifier(highwater.New(c.store)); err != nil {
		return err
	}
	if c.voters, err = voters.New(consul.Address(), c.root.ManagementToken().RevealString()); err != nil {
		return err
	}
	c.metrics = status.NewMetrics()
	c.panics = contain.New(c.log, c.metrics.Panicked)
	c.reports = reports.New(c.deps.Now)
	c.watermark = watermark.New(c.store, c.reports, c.deps.Now)
	c.views = view.NewWatcher(c.store, c.log)
	c.views.Contain(c.panics)
	c.views.CountFrom(c.watermark.Zero)
	if err := c.assembleSecrets(consul.Address(), epoch); err != nil {
		return err
	}
	c.directory = &control.Directory{}
	c.directory.Update(&view.View{}, c.peers.Members(), nil)
	ended := func(ctx context.Context, group, slot, bootID string, spoke bool) (policy.Decision, error) {
		if !spoke {
			return admission.Ended(ctx, c.store, group, slot, bootID)
		}
		return c.admission.Ended(ctx, group, slot, bootID)
	}
	c.control = control.New(c.views, c.directory, c.reports, ended, c.log)
	c.control.Contain(c.panics)
	if err := c.assembleCatalog(consul.Address()); err != nil {
		return err
	}
	c.platform = observe.NewPlatform(c.deps.Platform, c.deps.Now, 30*time.Second)
	if c.takeover, err = takeover.New(takeover.Config{
		Slot: c.cfg.Slot, Address: consul.Address(), Token: c.root.ManagementToken().RevealString(), Views: c.views, Store: c.store, Log: c.log,
	}); err != nil {
		return err
	}
	if err := c.assembleRoutes(consul.Address()); err != nil {
		return err
	}
	c.assembleServices(consul.Address()) //nolint:contextcheck // the API's token checks end with its server
	c.assembleConsulProxy(consul.Address())
	c.assembleXDS(consul.XDSAddress())
	return c.assembleOverlay()
}

// consulRunDir holds Consul's configuration; it may be a separate mount.
func (c *Coordinator) consulRunDir() string { return filepath.Join(c.cfg.RunDir, "consul") }

// ownConnections is an upper bound of this process's connections to its Consul.
const ownConnections = 1000

func (c *Coordinator) consulConfig(gossip secret.Value) supervise.Config {
	cfg := supervise.Config{
		Binary: c.cfg.ConsulBinary, DataDir: filepath.Join(c.cfg.StateDir, "consul"), RunDir: c.consulRunDir(),
		Datacenter: c.cfg.Datacenter, Node: c.cfg.Slot, VIP: c.cfg.vip(), Servers: c.cfg.Replicas,
		GossipKey: gossip, ManagementToken: c.root.ManagementToken(), CAPEM: c.root.CA().PEM(),
		// Members come from one address, that of the Consul proxy.
		Clients:     consulproxy.Connections() + ownConnections,
		ServiceMesh: supervise.MeshCA{ClusterID: c.root.Connect().ClusterID(), Root: c.root.Connect().RootPEM()},
	}
	for _, vip := range c.cfg.otherVIPs() {
		cfg.Others = append(cfg.Others, netip.MustParseAddr(vip))
	}
	return cfg
}

// assembleSecrets creates the parts that store, raise and follow the epochs of secrets.
func (c *Coordinator) assembleSecrets(consulAddress string, epoch uint32) error {
	c.keeper = secrets.NewKeeper(secrets.KeeperConfig{
		Keys: c.root, Server: c.consul, Store: c.store, Views: c.views, StateDir: c.cfg.StateDir, First: epoch, Log: c.log,
	})
	keyring, err := secrets.NewKeyring(consulAddress, c.root.ManagementToken())
	if err != nil {
		return err
	}
	c.rotator = secrets.NewRotator(secrets.RotatorConfig{
		Keys: c.root, Keyring: keyring, Store: c.store, Views: c.views,
		Now: c.deps.Now, Failpoint: c.deps.Failpoint, Log: c.log,
	})
	return nil
}

// assembleServices creates the services for members and operators, and the leader's duties.
func (c *Coordinator) assembleServices(consulAddress string) {
	c.assembleAdmission()
	driver := cmp.Or(c.cfg.PlatformDriver, group.PlatformPhala)
	judge := specvalidate.New(c.info.AppID, c.cfg.Trust.Images).On(driver)
	rules := c.cfg.Trust.DocumentRules()
	rules.Platform = driver
	measured := measure.New(c.cfg.Cluster, rules)
	c.assembleReconciler(judge, measured)
	c.assembleServer(judge, measured, consulAddress)
	c.gauges()
}

// assembleAdmission creates the admission of members.
func (c *Coordinator) assembleAdmission() {
	coordinators := make([]string, c.cfg.Replicas)
	for n := range coordinators {
		coordinators[n] = peering.CoordinatorSlot(n)
	}
	c.prover = bootstrap.NewProver(c.ownClusterID(c.identity.PublicKey()), c.quoter, c.log)
	c.admission = admission.New(admission.Config{
		Cluster: c.cfg.Cluster, AppID: c.info.AppID, Slot: c.cfg.Slot, Datacenter: c.cfg.Datacenter,
		Root: c.root, Identity: c.identity, Images: c.cfg.Trust.ImagePolicy(), Store: c.store, Views: c.views,
		Verifier: c.verifier, Second: c.second, Quoter: c.quoter, Issuer: c.issuer, Secrets: c.secrets,
		ClusterID: c.prover,
		Catalog:   c.catalog,
		Unbound: func(ctx context.Context, v *view.View, _, instanceID string) (groupName, slot string, ok bool) {
			return c.platform.Unbound(ctx, v, c.cfg.Cluster, instanceID)
		},
		Sessions: c.reports, Saw: c.reports.Saw, Directory: c.directory, Metrics: c.metrics, Warmup: admitWarmup,
		Coordinators: coordinators, Now: c.deps.Now, Log: c.log, Panics: c.panics,
	})
	c.control.ServeCredentials(c.admission.Credentials())
	c.control.ServeFarewell(c.admission.Farewell)
}

// assembleReconciler creates the planner and executor for the time as leader.
func (c *Coordinator) assembleReconciler(judge *specvalidate.Validator, measured measure.Measure) {
	operator := operate.New(operate.Config{
		Cluster: c.cfg.Cluster, Validator: judge, Measure: measured, Store: c.store, Platform: c.deps.Platform, Listing: c.platform,
		Look:      observe.Observer{Cluster: c.cfg.Cluster, Store: c.store, Views: c.views, Listing: c.platform, Reports: c.reports}.Observe,
		Watermark: c.watermark, Wake: c.control.Wake, Timing: c.deps.Timing, Now: c.deps.Now, Log: c.log,
		Metrics: c.metrics, Failpoint: c.deps.Failpoint,
	})
	c.reconcile = reconcile.New(reconcile.Config{
		Cluster: c.cfg.Cluster, Slot: c.cfg.Slot, Store: c.store, Views: c.views,
		Listing: c.platform, Reports: c.reports, Watermark: c.watermark, Warmup: warmup,
		Operator: operator, Tokens: c.issuer, Validator: judge, Images: c.cfg.Trust.ImagePolicy(),
		Members: c.issuer, LeaseNode: c.store.LeaseNode(), RemoveNode: c.catalog.Remove,
		Guard: c.admission.Guard, Duties: []reconcile.Duty{c.rotator, c.routes, tolerance.New(tolerance.Config{
			Self: c.cfg.Slot, Limits: c.cfg.Trust.TCB.OperatorExceptions, Store: c.store, Views: c.views, Now: c.deps.Now, Log: c.log,
		})},
		Timing: c.deps.Timing, Now: c.deps.Now, Failpoint: c.deps.Failpoint, Log: c.log, Metrics: c.metrics, Panics: c.panics,
	})
}

// assembleServer creates the API.
func (c *Coordinator) assembleServer(judge *specvalidate.Validator, measured measure.Measure, consulAddress string) {
	c.server = server.New(server.Config{
		Cluster: c.cfg.Cluster, AppID: c.info.AppID, Slot: c.cfg.Slot, Version: c.cfg.Version,
		OperatorTokenSHA256: c.cfg.Trust.OperatorTokenSHA256, Simulated: c.cfg.Trust.AllowSimulated,
		Images: c.cfg.Trust.ImagePolicy(), Validator: judge, Measure: measured,
		Root: c.root, Identity: c.identity, Certificate: c.certificate,
		Store: c.store, Views: c.views, Platform: c.platform,
		Reports: c.reports, Timing: c.deps.Timing, Tokens: c.issuer, Quoter: c.quoter,
		Consul: consulAddress, Datacenter: c.cfg.Datacenter, Transport: callerTransport,
		StoreFor: func(token string) (store.Store, error) {
			return store.NewConsul(store.ConsulConfig{Address: consulAddress, Token: token, Transport: callerTransport})
		},
		Overlay: overlaystatus.Server{Node: func() overlaystatus.Node { return c.node }}, Agents: c.control.Overlay, Watermark: c.watermark, Waits: c.waits,
		Coordinators: server.Coordinators{
			ComposeHash: c.info.ComposeHash, BootID: c.identity.BootID(), Voters: c.voters,
			Sessions: c.reports.Connected, Connected: c.connected, StepDown: c.reconcile.StepDown,
		},
		Metrics: server.Metrics{Gather: c.metrics.Gather, Connected: c.control.Connected, Agent: c.control.Metrics},
		Logs:    server.LogSources{Own: c.deps.OwnLog, Agent: c.control.Agent, Coordinators: c.peers.Members},
		Now:     c.deps.Now, Log: c.log, Panics: c.panics,
	})
}

// gauges registers the metrics of the groups, of the connections here, and of Consul's restarts.
func (c *Coordinator) gauges() {
	c.metrics.Groups(func() *view.View {
		if v, _ := c.views.Latest(); c.views.Readable() {
			return v
		}
		return nil
	})
	latest := func(of func(v *view.View) float64) func() float64 {
		return func() float64 {
			v, _ := c.views.Latest()
			if v == nil {
				return 0
			}
			return of(v)
		}
	}
	c.metrics.Gauge("cadre_tcb_tolerance_ends_timestamp_seconds", "When the first member is refused whose machine is not UpToDate but tolerated for a while; 0: there is none.",
		latest(func(v *view.View) float64 { return v.ToleranceEnds(c.cfg.Trust.TCB, c.deps.Now()) }))
	c.metrics.Gauge("cadre_tcb_out_of_date_timestamp_seconds", "About when Intel's standard collateral will call the first member's machine out of date that is UpToDate now, by the early set; 0: none is expected.",
		latest((*view.View).MachinesOutOfDateAt))
	c.metrics.Gauge("cadre_last_backup_timestamp_seconds", "When the last backup of the records was taken; 0: there is none.", latest(func(v *view.View) float64 {
		if v.LastBackup.At.IsZero() {
			return 0
		}
		return float64(v.LastBackup.At.Unix())
	}))
	c.metrics.Gauge("cadre_control_sessions", "Slots with an open control session here.", func() float64 { return float64(c.reports.Connected()) })
	c.metrics.Gauge("cadre_api_operators", "Open connections of operators to the API.", func() float64 { n, _ := c.server.Connections(); return float64(n) })
	c.metrics.Gauge("cadre_api_unauthenticated_callers", "Open connections of callers to the API without a valid token.", func() float64 { _, n := c.server.Connections(); return float64(n) })
	c.metrics.Gauge("cadre_consul_restarts", "Times the Consul server was started again.", func() float64 { return float64(c.consul.Restarts()) })
}

// assembleCatalog creates the part that registers members in Consul according to their reports.
func (c *Coordinator) assembleCatalog(consulAddress string) error {
	var err error
	c.catalog, err = catalog.New(catalog.Config{
		Address: consulAddress, Token: c.root.ManagementToken().RevealString(), Store: c.store, Views: c.views, Reports: c.reports,
		First: func() bool {
			v, _ := c.views.Latest()
			return v != nil && v.Leader == c.cfg.Slot
		},
		Now: c.deps.Now, Log: c.log, Panics: c.panics,
	})
	if err == nil {
		c.control.NoteReports(func(slot, _ string, _ *controlv1.Report) { c.catalog.Note(slot) })
	}
	return err
}

// assembleRoutes creates the part that maintains the service layer while this coordinator leads.
func (c *Coordinator) assembleRoutes(consulAddress string) error {
	var err error
	c.routes, err = routes.New(routes.Config{
		Address: consulAddress, Token: c.root.ManagementToken().RevealString(), Store: c.store, Views: c.views, Now: c.deps.Now, Log: c.log,
	})
	if err == nil {
		c.metrics.Gauge("cadre_routes_failing", "1 while this coordinator leads and a part of the service layer differs from the specs; the log names the part.", func() float64 {
			if c.routes.Failing() {
				return 1
			}
			return 0
		})
	}
	return err
}

// assembleConsulProxy creates the members' proxy to Consul.
func (c *Coordinator) assembleConsulProxy(consulAddress string) {
	c.consulProxy = consulproxy.New(consulproxy.Config{
		Consul: consulAddress, Datacenter: c.cfg.Datacenter, Tokens: c.issuer, Holds: c.holds, Now: c.deps.Now, Log: c.log,
	})
}

// holds reports whether a Boot holds the Slot now.
func (c *Coordinator) holds(slot, boot string) bool {
	v, _ := c.views.Latest()
	return v.Admitted(slot, boot)
}

// assembleXDS creates the relay for the configuration of members' proxies.
func (c *Coordinator) assembleXDS(consulAddress string) {
	c.xds = xds.New(xds.Config{
		Consul: consulAddress, Coordinator: c.cfg.Slot, BootID: c.identity.BootID(), Simulated: c.cfg.Trust.AllowSimulated,
		Tokens: c.issuer, Proxies: c.proxies, Holds: c.holds, Now: c.deps.Now, Log: c.log,
	})
	c.metrics.Gauge("cadre_xds_streams", "Open streams of members' proxies.", func() float64 { return float64(c.xds.Streams()) })
}

// proxies returns the proxies that each member of a group may be. While the group's record cannot
// be read, it uses the last readable one.
func (c *Coordinator) proxies(name string) []xds.Identity {
	v, _ := c.views.Latest()
	if v == nil {
		return nil
	}
	return xds.Identities(c.directory.ServiceMesh(v, name))
}

// serveConsulProxy serves one connection of a member at the Consul proxy. Coordinators have their
// own Consul.
func (c *Coordinator) serveConsulProxy(ctx context.Context, peer overlay.Peer, conn net.Conn) {
	if peer.ID.Group == peering.CoordinatorGroup {
		_ = conn.Close()
		return
	}
	c.consulProxy.Serve(ctx, consulproxy.Caller{Group: peer.ID.Group, Slot: peer.ID.Slot, Boot: peer.BootID}, conn)
}

// serveXDS serves one connection of a member's proxies. Coordinators have none.
func (c *Coordinator) serveXDS(ctx context.Context, peer overlay.Peer, conn net.Conn) {
	if peer.ID.Group == peering.CoordinatorGroup {
		_ = conn.Close()
		return
	}
	c.xds.Serve(ctx, xds.Caller{Group: peer.ID.Group, Slot: peer.ID.Slot, Boot: peer.BootID}, conn)
}

func (c *Coordinator) assembleOverlay() error {
	node, err := overlay.New(overlay.Config{
		Self:    overlay.ID{Cluster: c.cfg.Cluster, Group: peering.CoordinatorGroup, Slot: c.cfg.Slot},
		SelfVIP: c.cfg.vip(), Listen: c.cfg.SessionListen, Gateway: c.cfg.Gateway, Log: c.log,
		Rendezvous: c.cfg.Rendezvous, Paths: c.cfg.Paths,
		Private:        group.PrivatePorts(c.cfg.APIListen, c.cfg.StatusListen, c.cfg.SessionListen),
		ServeAdmission: c.serveAdmission, OnControl: c.onControl,
		Serve: map[uint16]func(context.Context, overlay.Peer, net.Conn){group.ConsulHTTPPort: c.serveConsulProxy, group.ConsulXDSPort: c.serveXDS},
	})
	if err != nil {
		return fmt.Errorf("make overlay node: %w", err)
	}
	c.node = node
	c.assembleHealer()
	c.metrics.Add(overlaystatus.NewCollector(func() overlaystatus.Node { return node }))
	if err := c.renew(); err != nil {
		return err
	}
	c.setPeers()
	return nil
}

// assembleHealer makes the Healer, which starts other coordinators that the platform reports as stopped.
func (c *Coordinator) assembleHealer() {
	c.healer = selfheal.New(selfheal.Config{
		Cluster: c.cfg.Cluster, AppID: c.info.AppID, Slot: c.cfg.Slot, Replicas: c.cfg.Replicas,
		Platform: c.deps.Platform, Views: c.views, Called: c.metrics.Call, Now: c.deps.Now, Log: c.log,
		Connected: func() map[string]bool {
			slots := map[string]bool{}
			for _, slot := range c.connected() {
				slots[slot] = true
			}
			return slots
		},
	})
}

// connected lists the other coordinators to which a session is open, sorted.
func (c *Coordinator) connected() (slots []string) {
	for _, s := range c.node.Sessions() {
		if s.Peer.Group == peering.CoordinatorGroup && s.BootID != "" {
			slots = append(slots, s.Peer.Slot)
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// onControl serves an agent's control session, or talks to another coordinator.
func (c *Coordinator) onControl(ctx context.Context, peer overlay.Peer, conns overlay.ControlConns) {
	if peer.ID.Group == peering.CoordinatorGroup {
		c.keeper.OnControl(ctx, peer, conns)
		return
	}
	if !c.hasRecords() {
		// An agent of a lost cluster: no record says yet whether its Boot holds its Slot. It retries.
		_ = conns.First.Close()
		return
	}
	c.control.OnControl(ctx, peer, conns)
}
