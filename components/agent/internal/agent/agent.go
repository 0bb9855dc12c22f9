package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/api"
	"cadre.dev/agent/internal/command"
	"cadre.dev/agent/internal/consulproxy"
	"cadre.dev/agent/internal/control"
	"cadre.dev/agent/internal/credcache"
	"cadre.dev/agent/internal/desired"
	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/health"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/member"
	"cadre.dev/agent/internal/report"
	"cadre.dev/agent/internal/sds"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/agent/internal/workloadfiles"
	"cadre.dev/attest"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

// Agent is one run of cadre-agent.
type Agent struct {
	cfg Config
	// trustFile is the text of the trust file; measured refuses another one than
	// this CVM was measured with.
	trustFile []byte
	boot      *admit.Boot
	bootAt    time.Time
	credcache *credcache.Store
	// resumed is the state of the previous worker of this Boot; nil if there was none.
	resumed *resumed
	guest   attest.Guest
	disk    *durable.Disk
	admit   *admit.Client
	// tokenLost: Consul did not know a token that a coordinator reported as valid. Only the
	// renewals' goroutine uses it.
	tokenLost bool
	mesh      *workloadfiles.Folder
	svid      *sds.Folder // nil unless asked for

	// Parts that need no name.
	member      *member.Watcher
	checker     *health.Checker
	command     *command.Runner
	hub         *control.Hub
	consulProxy *consulproxy.Proxy
	builder     *report.Builder
	set         *member.SetChanger
	// backends has the workload's reports on its backends, checkReports those on its checks.
	backends, checkReports *selfreport.Registry
	// service is nil without --xds.
	service *service
	changed latestvalue.Value[struct{}]

	// Set once, after the first admission.
	node      atomic.Pointer[overlay.Node]
	lifecycle atomic.Pointer[lifecycle.Executor]
	// askedAt is the version of the desired state that was known when the credentials in
	// force were asked for.
	askedAt atomic.Uint64
	// ended is why this Boot lost its Slot; nil before.
	ended atomic.Pointer[admit.EndedError]
	// forgotten gets a value when the coordinators know nothing of the Slot.
	forgotten chan struct{}

	// Replaced as a whole.
	admitted latestvalue.Value[*admit.Admitted]
	config   desired.InForce
	peers    latestvalue.Value[[]overlay.Peer]
}

// New checks cfg and prepares the parts; nothing runs yet.
func New(cfg Config) (*Agent, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if err := workloadfiles.InMemory(cfg.RunDir); err != nil {
		return nil, fmt.Errorf("--run-dir: %w", err)
	}
	trust, trustFile, err := attest.LoadTrust(cfg.TrustFile)
	if err != nil {
		return nil, fmt.Errorf("trust file %s: %w", cfg.TrustFile, err)
	}
	verifier, err := attest.NewVerifier(trust.VerifierConfig())
	if err != nil {
		return nil, fmt.Errorf("trust file %s: %w", cfg.TrustFile, err)
	}
	disk := durable.OpenDisk(cfg.StateDir, cfg.Log)
	pin, err := admit.OpenPin(disk, trust.ClusterID)
	if err != nil {
		return nil, err
	}
	boot, run, err := bootOf(cfg.Parent)
	if err != nil {
		return nil, err
	}
	keeper, err := credcache.Open(cfg.RunDir, boot)
	if err != nil {
		return nil, err
	}
	var svid *sds.Folder
	if cfg.MeshSVID {
		if svid, err = sds.Open(filepath.Join(cfg.MeshDir, "tls"), cfg.MeshGID); err != nil {
			return nil, err
		}
	}
	commands := command.New(cfg.ExecDir, cfg.Log)
	checkReports := selfreport.Open(filepath.Join(cfg.RunDir, "checks"), boot.ID, cfg.Log)
	a := &Agent{
		forgotten: make(chan struct{}, 1), svid: svid,
		cfg: cfg, trustFile: trustFile, boot: boot, bootAt: time.Now(), credcache: keeper,
		guest:        attest.NewGuestClient(cfg.DstackSocket),
		disk:         disk,
		member:       member.NewWatcher(cfg.Log),
		checker:      health.NewChecker(commands, checkReports, cfg.Log),
		command:      commands,
		checkReports: checkReports,
		backends:     selfreport.Open(filepath.Join(cfg.RunDir, "backends"), boot.ID, cfg.Log),
		consulProxy:  consulproxy.New(consulproxy.Config{Address: cfg.Consul, Listen: cfg.Parent.Listen, Log: cfg.Log}),
	}
	a.config = desired.InForce{Slot: func() string { return a.self().Slot }, Apply: a.apply, Applied: a.route, Log: cfg.Log}
	a.admit = admit.New(admit.Config{
		Boot: boot, Guest: a.guest, Verifier: verifier, Trust: trust, Pin: pin, Log: cfg.Log,
		Dial: func(ctx context.Context) (admit.Conn, error) {
			return overlay.DialAdmission(ctx, cfg.Gateway, cfg.Gateway.Name(trust.CoordinatorAppID), boot.Certificate)
		},
		Seen: func() (term, state uint64) { return a.hub.Seen() }, // it is there before the first admission
	})
	a.resumed = a.resume()
	if a.mesh, err = a.openMesh(); err != nil {
		return nil, err
	}
	if a.service, err = a.newService(); err != nil {
		return nil, err
	}
	a.builder = report.NewBuilder(report.Sources{
		AgentSpec: a.config.AgentSpec, Member: a.member.State, Checks: a.checks, Results: a.results,
		Epochs: a.epochs, Backends: a.backends.States, Version: cfg.Version, BootAt: a.bootAt,
		Faults: func() []string { return report.Faults(a.disk.Faults(), a.config.Fault(), a.set.Fault()) },
	})
	a.hub, err = control.New(control.Config{
		Disk: disk, Report: a.builder.Build, ReportChanged: &a.changed, Log: cfg.Log,
		Overlay: a.overlayServer(), Pauser: routePauser{a}, Metrics: a.gatherer(), Run: run, Operators: commands, OwnLog: cfg.OwnLog,
	})
	if err != nil {
		return nil, err
	}
	a.set = &member.SetChanger{
		Watcher: a.member, Config: &a.config.Value, Connected: a.hub.Connected, Log: cfg.Log,
		Ended: func() bool { return a.ended.Load() != nil },
	}
	return a, nil
}

// Run serves until ctx ends. It returns an error only when the agent cannot work at all, so that
// its supervisor starts it again.
func (a *Agent) Run(ctx context.Context) error {
	listener, err := api.Listen(ctx, a.cfg.Parent, a.cfg.API)
	if err != nil {
		return err
	}
	server := api.New(api.Config{
		Address: listener.Addr(), Instance: a.instance, Lifecycle: a.apiLifecycle, NotReady: a.notReady,
		Backends: a.backends, Checks: a.checkReports,
		Metrics: a.metricsHandler(), Log: a.cfg.Log,
	})
	a.cfg.Log.Info("agent started", "version", a.cfg.Version, "boot", a.boot.ID, "api", listener.Addr().String())
	parts, stop := a.lingering(ctx)
	defer stop()
	return runAll(parts,
		func(ctx context.Context) error { return server.Run(ctx, listener) },
		a.disk.Run,
		a.runBeat,
		a.member.Run,
		a.checker.Run,
		a.backends.Run,
		a.checkReports.Run,
		a.runConsulProxy,
		func(ctx context.Context) error { return a.service.run(ctx, a) },
		func(inner context.Context) error { return a.runAdmitted(inner, ctx) },
	)
}

// runAdmitted gets this Boot admitted and then runs everything that needs a name. When whole
// ends, and not just ctx, the Boot does.
func (a *Agent) runAdmitted(ctx, whole context.Context) error {
	if err := a.measured(ctx); err != nil {
		return err
	}
	first, err := a.first(ctx)
	if err != nil {
		return admit.OnlyEnded(err)
	}
	vip, err := parseVIP(first.Grant.GetVip())
	if err != nil {
		return err
	}
	node, err := overlay.New(overlay.Config{
		Self: first.ID, SelfVIP: vip, Listen: a.cfg.Listen, Gateway: a.cfg.Gateway, Log: a.cfg.Log,
		Rendezvous: a.cfg.Rendezvous, Paths: a.cfg.Paths, Private: group.PrivatePorts(a.cfg.API, a.cfg.Consul, a.cfg.XDS, a.cfg.Listen),
		OnControl: a.hub.Serve, Listener: a.cfg.Parent, OnDemand: true,
	})
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	exec, err := lifecycle.New(lifecycle.Config{
		Slot: first.ID.Slot, Disk: a.disk, Member: a.member, Hooks: a.config.Hooks, Commands: a.command,
		Callers: newCallers(a.hub, a.cfg.Log), Log: a.cfg.Log,
	})
	if err != nil {
		return err
	}
	a.node.Store(node)
	a.lifecycle.Store(exec)
	a.peers.Set(first.Peers)
	a.take(first)
	a.openConsulProxy(first.ID.Slot)
	a.service.open(a, first.ID.Slot)
	a.reconfigure()
	return a.untilFarewell(ctx, whole,
		node.Run,
		a.hub.Run,
		exec.Run,
		a.renew,
		a.endWhenSlotLost,
		a.watchAdmissionStatus,
		a.applyDesired,
		a.applyPeers,
		a.writeMesh,
		a.set.Run,
		a.keepCredentials,
		a.watchHealth,
	)
}

// runAll runs all parts until ctx ends or one fails, and waits for every one.
func runAll(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs error
	)
	for _, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				mu.Lock()
				errs = errors.Join(errs, err)
				mu.Unlock()
				cancel(err)
			}
		})
	}
	wg.Wait()
	return errs
}

func (a *Agent) apiLifecycle() api.Lifecycle {
	if e := a.lifecycle.Load(); e != nil {
		return e
	}
	return nil
}
