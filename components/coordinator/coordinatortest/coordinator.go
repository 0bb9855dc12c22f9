package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/admission"
	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/store"
)

// Coordinator is one coordinator of the cluster. Its methods may be called concurrently.
type Coordinator struct {
	slot      string
	log       *slog.Logger
	metrics   *metrics
	views     *view.Watcher
	reports   *reports.Reports
	directory *control.Directory
	control   *control.Service
	admission *admission.Service
	node      *overlay.Node
	// all are the coordinators, for the peer maps.
	all []peering.Member

	guest *attest.GuestClient
	stop  context.CancelFunc
	tasks sync.WaitGroup
	mu    sync.Mutex
	ended error // of a task that should not have ended; guarded by mu
}

// Start runs coordinator n and returns once it listens and has read the records; ctx ends it. The
// caller must Close it.
func Start(ctx context.Context, cfg Config, n int, log *slog.Logger) (*Coordinator, error) {
	c := &Coordinator{
		slot: peering.CoordinatorSlot(n), metrics: &metrics{}, directory: &control.Directory{}, reports: reports.New(time.Now),
		guest: attest.NewGuestClient(cfg.Guests[n]),
	}
	c.log = log.With("self", c.slot)
	for i := range cfg.Guests {
		c.all = append(c.all, peering.Member{
			Group: peering.CoordinatorGroup, Slot: peering.CoordinatorSlot(i), VIP: peering.CoordinatorVIP(i), AppID: cfg.AppID,
			InstanceID: fmt.Sprintf("%040x", i+1), Coordinator: true,
		})
	}
	if err := c.assemble(ctx, cfg, n); err != nil {
		return nil, fmt.Errorf("make %s: %w", c.slot, err)
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.run(ctx, "overlay", c.node.Run)
	c.run(ctx, "records", c.views.Run)
	c.run(ctx, "peers", func(ctx context.Context) error { return c.followPeers(ctx, cfg.Cluster) })
	c.run(ctx, "orders", c.control.Follow)
	c.run(ctx, "leases", c.admission.KeepLeases)
	if err := c.Await(ctx, Await{}); err != nil {
		c.Close()
		return nil, fmt.Errorf("start %s: %w", c.slot, err)
	}
	return c, nil
}

func (c *Coordinator) run(ctx context.Context, name string, f func(context.Context) error) {
	c.tasks.Go(func() {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			c.mu.Lock()
			c.ended = fmt.Errorf("%s: %w", name, err)
			c.mu.Unlock()
			c.stop()
		}
	})
}

// Close ends it and waits for its end.
func (c *Coordinator) Close() {
	c.stop()
	c.tasks.Wait()
	c.guest.Close()
}

// Address is the listen address for agents, host:port.
func (c *Coordinator) Address() string { return c.node.ListenAddr().String() }

func (c *Coordinator) assemble(ctx context.Context, cfg Config, n int) error {
	root, err := keys.Derive(ctx, c.guest, cfg.Cluster, cfg.ClusterID)
	if err != nil {
		return err
	}
	identity, err := keys.NewIdentity(root.CA(), c.slot, true)
	if err != nil {
		return err
	}
	records, err := store.NewConsul(store.ConsulConfig{Address: cfg.Consul, Token: cfg.Token})
	if err != nil {
		return err
	}
	issuer, err := tokens.New(cfg.Consul, cfg.Token, tokens.TTL)
	if err != nil {
		return err
	}
	verifier, err := newVerifier(cfg, records)
	if err != nil {
		return err
	}
	c.views = view.NewWatcher(records, c.log)
	c.directory.Update(&view.View{}, c.all, nil)
	c.control = control.New(c.views, c.directory, c.reports, func(ctx context.Context, group, slot, bootID string, _ bool) (policy.Decision, error) {
		return admission.Ended(ctx, records, group, slot, bootID)
	}, c.log)
	c.admission = admission.New(admission.Config{
		Cluster: cfg.Cluster, AppID: cfg.AppID, Slot: c.slot, Datacenter: "dc1",
		Root: root, Identity: identity, Images: cfg.Images, Store: records, Views: c.views,
		Verifier: verifier, Quoter: &ownEvidence{c.guest, verifier}, Issuer: issuer, Secrets: secrets.New(root, records),
		Sessions: c.reports, Directory: c.directory, Metrics: c.metrics, Now: time.Now, Log: c.log,
		// Without Warmup: these coordinators represent long-running ones.
	})
	c.control.ServeCredentials(c.admission.Credentials())
	certificate, err := identity.Certificate(time.Now())
	if err != nil {
		return err
	}
	if c.node, err = overlay.New(overlay.Config{
		Self:    overlay.ID{Cluster: cfg.Cluster, Group: peering.CoordinatorGroup, Slot: c.slot},
		SelfVIP: netip.MustParseAddr(peering.CoordinatorVIP(n)), Listen: "127.0.0.1:0", Gateway: overlay.Gateway{Domain: cfg.Domain},
		Paths: []overlay.PathKind{overlay.PathGateway}, Log: c.log,
		ServeAdmission: c.admission.Serve, OnControl: c.control.OnControl,
	}); err != nil {
		return err
	}
	c.node.SetCredentials(overlay.Credentials{Certificate: certificate, Roots: root.CA().Pool()})
	return nil
}

// followPeers updates the peer maps from the records. Agents are Peers without ports: these
// coordinators forward nothing.
func (c *Coordinator) followPeers(ctx context.Context, cluster string) error {
	records := c.views.Subscribe()
	defer records.Close()
	for {
		v, changed := records.Take()
		scope := control.ScopeOf(changed.All, changed.Groups)
		if v == nil {
			v = &view.View{}
		}
		c.control.EndStale(ctx, v, scope)
		if groups := c.directory.Update(v, c.all, scope); len(groups) > 0 {
			peers, err := membersOf(c.directory, cluster, c.slot)
			if err != nil {
				return err
			}
			c.node.SetPeers(peers)
			c.control.WakeGroups(groups)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-records.C():
		}
	}
}

// membersOf returns a coordinator's Peers that are members, without ports. Coordinators need no
// connections to each other here.
func membersOf(directory *control.Directory, cluster, slot string) ([]overlay.Peer, error) {
	peers, _ := directory.Peers(peering.CoordinatorGroup, slot)
	out := make([]overlay.Peer, 0, len(peers))
	for _, p := range peers {
		if p.Coordinator {
			continue
		}
		vip, err := netip.ParseAddr(p.VIP)
		if err != nil {
			return nil, err
		}
		out = append(out, overlay.Peer{
			ID: overlay.ID{Cluster: cluster, Group: p.Group, Slot: p.Slot}, BootID: p.BootID, InstanceID: p.InstanceID, VIP: vip,
		})
	}
	return out, nil
}

// Await is the state that a coordinator must see. Sessions are control sessions of Boots whose
// leases live: a lease that lapsed while its agent had no session is taken again.
type Await struct{ Slots, Sessions int }

func (c *Coordinator) alive(v *view.View) int {
	n := 0
	for slot, lease := range v.Boots {
		if lease.Leased() && c.reports.Live(slot, lease.BootID) {
			n++
		}
	}
	return n
}

// Await returns once the coordinator sees the state a. It returns an error when ctx ends before, or
// when the coordinator read a bad record.
func (c *Coordinator) Await(ctx context.Context, a Await) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		v, _ := c.views.Latest()
		if v != nil && len(v.Bad) > 0 {
			return errors.Join(v.Bad[0])
		}
		if v != nil && c.node.ListenAddr() != nil && len(v.Policies) >= a.Slots && c.alive(v) >= a.Sessions {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			return errors.Join(context.Cause(ctx), c.ended)
		}
	}
}
