package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/admission"
	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/catalog"
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
	"cadre.dev/coordinator/internal/server"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/status"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/takeover"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/tolerance"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/voters"
	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/secret"
	"cadre.dev/overlaystatus"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// warmup is the time that agents need to find a restarted coordinator and to report to it: a
// re-dial and a report, each of some seconds.
const warmup = reports.LiveWithin + 6*time.Second

// admitWarmup is warmup for a Slot that another Boot requests. A live agent dials an absent
// coordinator at least every 2 s, and a refusing one every 5 s. It reports on its first Session,
// and a dial takes a few seconds at most. The leader's plans wait longer, because they need most
// agents.
const admitWarmup = 8 * time.Second

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
