package coordinatortest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/admission"
	"cadre.dev/coordinator/internal/catalog"
	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/routes"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/xds"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/secret"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// LayerConfig is one coordinator of a cluster with a service layer. All fields are required.
type LayerConfig struct {
	Cluster string
	// N is the coordinator's ordinal, and Instances are the gateway's ids of all coordinators.
	N         int
	Instances []string
	// Consul and XDS are the addresses of its own server's APIs, Token its management token.
	Consul, XDS, Token string
	Gateway            overlay.Gateway
	Log                *slog.Logger
}

// Layer is the part of a coordinator that members of a service layer use: records, control
// sessions, leases of Boots, catalog, routes, intentions, the mesh's CA, the Consul proxy,
// configuration of proxies, and eviction. It has no admission: a record names the admitted Boot.
// Its methods may be called concurrently.
type Layer struct {
	cfg         LayerConfig
	slot        string
	all         []peering.Member
	root        *keys.Root
	identity    *keys.Identity
	store       *store.Consul
	issuer      *tokens.Issuer
	views       *view.Watcher
	reports     *reports.Reports
	directory   *control.Directory
	control     *control.Service
	admission   *admission.Service
	catalog     *catalog.Writer
	routes      *routes.Writer
	consulProxy *consulproxy.Proxy
	xds         *xds.Relay
	node        *overlay.Node
	certified   chan struct{} // closed: Consul has the mesh's CA
}

// seed is the guest agent of all coordinators.
type seed string

// GetKey implements keys.Guest.
func (s seed) GetKey(_ context.Context, path, purpose string) ([]byte, error) {
	mac := hmac.New(sha256.New, []byte(s))
	_, _ = mac.Write([]byte(path + "|" + purpose)) // a hash never fails to write
	return mac.Sum(nil), nil
}

// clusterIDOf is the cluster ID of all layers.
const clusterIDOf = "0123456789abcdef0123456789abcdef"

// NewLayer returns a Layer; Run serves it.
func NewLayer(ctx context.Context, cfg LayerConfig) (*Layer, error) {
	l := &Layer{
		cfg: cfg, slot: peering.CoordinatorSlot(cfg.N), reports: reports.New(time.Now), directory: &control.Directory{}, certified: make(chan struct{}),
	}
	for i, instance := range cfg.Instances {
		l.all = append(l.all, peering.Member{
			Group: peering.CoordinatorGroup, Slot: peering.CoordinatorSlot(i), VIP: peering.CoordinatorVIP(i), InstanceID: instance, Coordinator: true,
		})
	}
	for _, part := range []func(context.Context) error{l.assembleKeys, l.assembleRecords, l.assembleServices, l.assembleOverlay} {
		if err := part(ctx); err != nil {
			return nil, fmt.Errorf("make %s: %w", l.slot, err)
		}
	}
	return l, nil
}

func (l *Layer) assembleKeys(ctx context.Context) (err error) {
	if l.root, err = keys.Derive(ctx, seed("coordinators"), l.cfg.Cluster, clusterIDOf); err != nil {
		return err
	}
	l.identity, err = keys.NewIdentity(l.root.CA(), l.slot, true)
	return err
}

func (l *Layer) assembleRecords(context.Context) (err error) {
	cfg := l.cfg
	if l.store, err = store.NewConsul(store.ConsulConfig{Address: cfg.Consul, Token: cfg.Token}); err != nil {
		return err
	}
	if l.issuer, err = tokens.New(cfg.Consul, cfg.Token, tokens.TTL); err != nil {
		return err
	}
	l.views = view.NewWatcher(l.store, cfg.Log)
	l.directory.Update(&view.View{}, l.all, nil)
	l.control = control.New(l.views, l.directory, l.reports, func(ctx context.Context, group, slot, bootID string, _ bool) (policy.Decision, error) {
		return admission.Ended(ctx, l.store, group, slot, bootID)
	}, cfg.Log)
	if l.catalog, err = catalog.New(catalog.Config{
		Address: cfg.Consul, Token: cfg.Token, Store: l.store, Views: l.views, Reports: l.reports, First: l.Leads, Now: time.Now, Log: cfg.Log,
	}); err != nil {
		return err
	}
	l.control.NoteReports(func(slot, _ string, _ *controlv1.Report) { l.catalog.Note(slot) })
	l.routes, err = routes.New(routes.Config{Address: cfg.Consul, Token: cfg.Token, Store: l.store, Views: l.views, Now: time.Now, Log: cfg.Log})
	return err
}

func (l *Layer) assembleServices(context.Context) error {
	cfg := l.cfg
	var coordinators []string
	for _, c := range l.all {
		coordinators = append(coordinators, c.Slot)
	}
	l.admission = admission.New(admission.Config{
		Cluster: cfg.Cluster, Slot: l.slot, Root: l.root, Identity: l.identity, Store: l.store, Views: l.views, Issuer: l.issuer,
		Sessions: l.reports, Directory: l.directory, Metrics: &metrics{}, Catalog: l.catalog, Coordinators: coordinators, Now: time.Now, Log: cfg.Log,
	})
	l.consulProxy = consulproxy.New(consulproxy.Config{Consul: cfg.Consul, Datacenter: "dc1", Tokens: l.issuer, Holds: l.holds, Now: time.Now, Log: cfg.Log})
	l.xds = xds.New(xds.Config{
		Consul: cfg.XDS, Coordinator: l.slot, BootID: l.identity.BootID(), Simulated: true,
		Tokens: l.issuer, Proxies: l.proxies, Holds: l.holds, Now: time.Now, Log: cfg.Log,
	})
	return nil
}

func (l *Layer) assembleOverlay(context.Context) (err error) {
	if l.node, err = overlay.New(overlay.Config{
		Self: overlay.ID{Cluster: l.cfg.Cluster, Group: peering.CoordinatorGroup, Slot: l.slot}, SelfVIP: netip.MustParseAddr(peering.CoordinatorVIP(l.cfg.N)),
		Listen: "127.0.0.1:0", Gateway: l.cfg.Gateway, Paths: []overlay.PathKind{overlay.PathGateway}, Log: l.cfg.Log, OnControl: l.control.OnControl,
		Serve: map[uint16]func(context.Context, overlay.Peer, net.Conn){
			group.ConsulHTTPPort: func(ctx context.Context, peer overlay.Peer, conn net.Conn) {
				l.consulProxy.Serve(ctx, consulproxy.Caller{Group: peer.ID.Group, Slot: peer.ID.Slot, Boot: peer.BootID}, conn)
			},
			group.ConsulXDSPort: func(ctx context.Context, peer overlay.Peer, conn net.Conn) {
				l.xds.Serve(ctx, xds.Caller{Group: peer.ID.Group, Slot: peer.ID.Slot, Boot: peer.BootID}, conn)
			},
		},
	}); err != nil {
		return err
	}
	cert, err := l.identity.Certificate(time.Now())
	if err == nil {
		l.node.SetCredentials(overlay.Credentials{Certificate: cert, Roots: l.root.CA().Pool()})
	}
	return err
}

// holds reports whether a Boot holds the Slot now.
func (l *Layer) holds(slot, boot string) bool {
	v, _ := l.views.Latest()
	return v.Admitted(slot, boot)
}

// proxies returns the proxies that each member of a group may be.
func (l *Layer) proxies(name string) []xds.Identity {
	v, _ := l.views.Latest()
	if v == nil {
		return nil
	}
	return xds.Identities(l.directory.ServiceMesh(v, name))
}

// Run serves until ctx ends.
func (l *Layer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for name, part := range map[string]func(context.Context) error{
		"overlay": l.node.Run, "Consul proxy": l.consulProxy.Run, "xds": l.xds.Run, "records": l.views.Run, "catalog": l.catalog.Run, "orders": l.control.Follow,
		"leases": l.admission.KeepLeases, "peers": l.followPeers, "mesh's CA": l.certify, "duties": l.campaign,
	} {
		all.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %s: %w", l.slot, name, err))
			}
		})
	}
	all.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// campaign leads whenever there is no other leader, like the reconciler, with the duties of the
// service layer only.
func (l *Layer) campaign(ctx context.Context) error { //nolint:contextcheck // a Term ends with its lease
	for ctx.Err() == nil {
		lease, err := store.AcquireBlocking(ctx, l.store, l.slot, func(error) {})
		if err != nil {
			return err
		}
		term, stop := context.WithCancel(lease.Context())
		release := context.AfterFunc(ctx, stop)
		var duties sync.WaitGroup
		duties.Go(func() { l.routes.Lead(term, lease) })
		duties.Go(func() { l.admission.Guard(term, lease) })
		duties.Wait()
		release()
		stop()
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = lease.Release(call) // an unreleased lease expires
		cancel()
	}
	return nil
}

// certify sets the mesh's CA in Consul.
func (l *Layer) certify(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := supervise.EnsureMeshCA(ctx, l.cfg.Consul, secret.FromString(l.cfg.Token), supervise.MeshCA{
			ClusterID: l.root.Connect().ClusterID(), Root: l.root.Connect().RootPEM(),
		}, l.root.Connect().Key())
		if err == nil {
			close(l.certified)
			return nil
		}
		l.cfg.Log.Info("consul does not have the mesh's CA yet", "error", err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// followPeers updates the peer maps from the records, as package coordinator does.
func (l *Layer) followPeers(ctx context.Context) error {
	records := l.views.Subscribe()
	defer records.Close()
	for {
		v, changed := records.Take()
		scope := control.ScopeOf(changed.All, changed.Groups)
		if v == nil {
			v = &view.View{}
		}
		l.control.EndStale(ctx, v, scope)
		l.xds.Recheck()
		if groups := l.directory.Update(v, l.all, scope); len(groups) > 0 {
			if err := l.setPeers(); err != nil {
				return err
			}
			l.control.WakeGroups(groups)
		}
		l.xds.Recheck()
		select {
		case <-ctx.Done():
			return nil
		case <-records.C():
		}
	}
}

func (l *Layer) setPeers() error {
	peers, err := membersOf(l.directory, l.cfg.Cluster, l.slot)
	if err == nil {
		l.node.SetPeers(peers)
	}
	return err
}

// Listening returns the listen address for agents; nil: it does not listen yet, or Consul lacks the
// mesh's CA.
func (l *Layer) Listening() net.Addr {
	select {
	case <-l.certified:
		return l.node.ListenAddr()
	default:
		return nil
	}
}

// Leads reports whether this coordinator leads, according to the records.
func (l *Layer) Leads() bool {
	v, _ := l.views.Latest()
	return v != nil && v.Leader == l.slot
}

// Streams returns how many proxies get their configuration from this coordinator.
func (l *Layer) Streams() int { return l.xds.Streams() }

// Peer returns this coordinator as a Peer for a Boot's admission.
func (l *Layer) Peer() overlay.Peer {
	return overlay.Peer{
		ID:         overlay.ID{Cluster: l.cfg.Cluster, Group: peering.CoordinatorGroup, Slot: l.slot},
		InstanceID: l.cfg.Instances[l.cfg.N], VIP: netip.MustParseAddr(peering.CoordinatorVIP(l.cfg.N)), Coordinator: true,
	}
}

// Admit returns the certificate of an admitted Boot of a Slot, with its CA in PEM.
func (l *Layer) Admit(groupName, slot string) (cert tls.Certificate, ca []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, err
	}
	der, _, err := l.root.CA().SVID(key.Public(), keys.Subject{Group: groupName, Slot: slot, Simulated: true}, time.Now())
	if err != nil {
		return cert, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, l.root.CA().PEM(), err
}

// Token issues the token of an admitted Boot's workload.
func (l *Layer) Token(ctx context.Context, spec group.Spec, slot, boot string) (secret string, err error) {
	token, err := l.issuer.Slot(ctx, tokens.Holder{Spec: spec, Slot: slot, BootID: boot})
	return token.Secret, err
}
