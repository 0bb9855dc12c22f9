package consulproxy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"go.uber.org/goleak"

	"cadre.dev/agent/servicelayertest"
	"cadre.dev/coordinator/coordinatortest"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
	"cadre.dev/overlay/overlaytest"
	"cadre.dev/store/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asMachine) != "" {
		if err := runMachine(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"))
}

const (
	clusterName = "consulproxy.test"
	// groupName is the members' group with Patroni as its workload.
	groupName    = "pg"
	coordinators = 3
	// limit is far longer than any step here; a lost answer does not arrive within it.
	limit = 30 * time.Second
)

// world is the part of a cluster that members' requests to Consul use: real Consul servers, a
// Consul proxy before each, and members whose requests reach the Consul proxies over Sessions.
type world struct {
	t *testing.T
	// log has the log lines of the Consul proxies, for readers of a failure.
	log          *slog.Logger
	ca           *authority
	front        *overlaytest.Gateway // of the platform
	consul       *storetest.Cluster
	coordinators []*coordinator
	members      []*member

	mu    sync.Mutex
	boots map[string]string // by Slot; guarded by mu
}

// coordinator is one machine's Consul proxy, before its own server.
type coordinator struct {
	id   overlay.ID
	name string // by which gateways know it
	// way is the gateway before its machine.
	way         *overlaytest.Gateway
	server      *storetest.ClusterServer
	consulProxy *coordinatortest.ConsulProxy
	node        *overlay.Node
	cert        tls.Certificate
	asked       atomic.Int64 // requests that were judged
	serves      atomic.Int64 // connections of members
}

// member is one machine's node and Consul proxy, and its workload.
type member struct {
	w      *world
	id     overlay.ID
	name   string
	cert   tls.Certificate
	node   *overlay.Node
	token  string
	addr   string // of Consul, for the workload
	client *http.Client
	left   *reasons
}

// reasons are why a member's Consul proxy left coordinators, as its log says.
type reasons struct {
	slog.Handler

	mu   sync.Mutex
	said []string // guarded by mu
}

// Handle implements slog.Handler.
func (r *reasons) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == "consul requests leave this coordinator" {
		record.Attrs(func(a slog.Attr) bool {
			if a.Key == "error" {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.said = append(r.said, a.Value.String())
			}
			return true
		})
	}
	return r.Handler.Handle(ctx, record)
}

func (r *reasons) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

func newWorld(t *testing.T, members int) *world {
	t.Helper()
	w := &world{
		t: t, ca: newAuthority(t), front: overlaytest.NewGateway(t), consul: storetest.StartConsulCluster(t, coordinators),
		log: slog.New(slog.NewTextHandler(t.Output(), nil)), boots: map[string]string{},
	}
	for n := range coordinators {
		w.coordinators = append(w.coordinators, w.coordinator(n))
	}
	for n := range members {
		w.members = append(w.members, w.member(n))
	}
	for _, c := range w.coordinators {
		var peers []overlay.Peer
		for n, m := range w.members {
			peers = append(peers, overlay.Peer{ID: m.id, BootID: overlay.BootID(m.cert.Leaf), InstanceID: m.name, VIP: vip(2, n)})
		}
		c.node.SetPeers(peers)
	}
	return w
}

// vip is an unused address: no port is forwarded here.
func vip(of byte, n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 33, of, byte(n + 1)}) }

func (w *world) gateway() overlay.Gateway {
	return overlay.Gateway{Domain: "gw.test", Address: w.front.Address()}
}

// run has f run until the test is over.
func (w *world) run(what string, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("%s: %v", what, err)
		}
	})
}

func (w *world) coordinator(n int) *coordinator {
	w.t.Helper()
	c := &coordinator{
		id:   overlay.ID{Cluster: clusterName, Group: overlay.CoordinatorGroup, Slot: fmt.Sprintf("coordinator-%d", n)},
		name: fmt.Sprintf("c%d", n), way: overlaytest.NewGateway(w.t), server: w.consul.Servers[n],
	}
	c.cert = w.ca.issue(w.t, c.id)
	log := w.log.With("self", c.id.Slot)
	var err error
	if c.consulProxy, err = coordinatortest.NewConsulProxy(coordinatortest.ConsulProxyConfig{
		Consul: c.server.Addr, Token: w.consul.ManagementToken, Log: log,
		Holds: func(slot, boot string) bool {
			c.asked.Add(1)
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.boots[slot] == boot
		},
	}); err != nil {
		w.t.Fatal(err)
	}
	c.node = w.node(overlay.Config{
		Self: c.id, SelfVIP: vip(1, n), Log: log,
		Serve: map[uint16]func(context.Context, overlay.Peer, net.Conn){
			group.ConsulHTTPPort: func(ctx context.Context, peer overlay.Peer, conn net.Conn) {
				c.serves.Add(1)
				defer c.serves.Add(-1)
				c.consulProxy.Serve(ctx, peer, conn)
			},
		},
	}, c.cert)
	w.run("Consul proxy of "+c.id.Slot, c.consulProxy.Run)
	routed := w.gateway().Name(c.name)
	w.front.Route(routed, c.way.Address())
	c.way.Route(routed, c.node.ListenAddr().String())
	return c
}

// node runs one until the test is over.
func (w *world) node(cfg overlay.Config, cert tls.Certificate) *overlay.Node {
	w.t.Helper()
	cfg.Listen, cfg.Gateway = "127.0.0.1:0", w.gateway()
	n, err := overlay.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	n.SetCredentials(overlay.Credentials{Certificate: cert, Roots: w.ca.pool})
	w.run("overlay of "+cfg.Self.Slot, n.Run)
	eventually(w.t, cfg.Self.Slot+" listens", func() error {
		if n.ListenAddr() == nil {
			return fmt.Errorf("%s does not", cfg.Self.Slot)
		}
		return nil
	})
	return n
}

func (w *world) member(n int) *member {
	w.t.Helper()
	slot := group.SlotName(groupName, n)
	m := &member{w: w, id: overlay.ID{Cluster: clusterName, Group: groupName, Slot: slot}, name: slot}
	m.cert = w.ca.issue(w.t, m.id)
	boot := overlay.BootID(m.cert.Leaf)
	w.mu.Lock()
	w.boots[slot] = boot
	w.mu.Unlock()
	// The coordinators' catalog entry of a member.
	if _, err := w.admin(0).Catalog().Register(registration(slot, n, ""), nil); err != nil {
		w.t.Fatal(err)
	}
	spec := group.Spec{Name: groupName, Workload: group.Workload{Kind: group.WorkloadPatroni}}
	var err error
	if m.token, err = w.coordinators[0].consulProxy.Token(w.t.Context(), spec, slot, boot); err != nil {
		w.t.Fatal(err)
	}
	log := w.log.With("self", slot)
	m.node = w.node(overlay.Config{Self: m.id, SelfVIP: vip(2, n), Log: log}, m.cert)
	var peers []overlay.Peer
	for i, c := range w.coordinators {
		peers = append(peers, overlay.Peer{ID: c.id, InstanceID: c.name, VIP: vip(1, i), Coordinator: true})
	}
	m.node.SetPeers(peers)
	listener, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	m.addr = listener.Addr().String()
	m.left = &reasons{Handler: log.Handler()}
	d := servicelayertest.New(servicelayertest.Config{
		Address: m.addr, Log: slog.New(m.left),
		Listen: func(context.Context, string, string) (net.Listener, error) { return listener, nil },
	})
	d.Open(servicelayertest.Way{
		Self: slot, Coordinators: m.coordinators,
		Dial: func(ctx context.Context, id overlay.ID) (net.Conn, error) {
			return m.node.DialService(ctx, id, group.ConsulHTTPPort)
		},
	})
	w.run("Consul proxy of "+slot, d.Run)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	w.t.Cleanup(transport.CloseIdleConnections)
	m.client = &http.Client{Transport: transport}
	return m
}

// registration is a member in the catalog; version changes it.
func registration(slot string, n int, version string) *consul.CatalogRegistration {
	return &consul.CatalogRegistration{
		Node: slot, Address: vip(2, n).String(),
		Service: &consul.AgentService{ID: groupName, Service: groupName, Port: 5432, Tags: []string{"replica"}, Meta: map[string]string{"version": version}},
		Checks:  consul.HealthChecks{{Node: slot, CheckID: groupName + ":ready", Name: "ready", ServiceID: groupName, Status: consul.HealthPassing}},
	}
}

// coordinators are the coordinators of the peer map, as the agent passes them to its Consul proxy.
func (m *member) coordinators() (out []servicelayertest.Coordinator) {
	for _, s := range m.node.Sessions() {
		out = append(out, servicelayertest.Coordinator{ID: s.Peer, Up: s.State == overlay.SessionUp})
	}
	return out
}

// token is the member's; Consul's own tools use the same client.
func (m *member) consul() *consul.Client {
	m.w.t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	m.w.t.Cleanup(transport.CloseIdleConnections)
	client, err := consul.NewClient(&consul.Config{Address: m.addr, Token: m.token, Transport: transport})
	if err != nil {
		m.w.t.Fatal(err)
	}
	return client
}

// admin may do everything at one server.
func (w *world) admin(server int) *consul.Client {
	w.t.Helper()
	client, err := w.consul.Client(server)
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// serving is the one coordinator that has a connection of a member.
func (w *world) serving() *coordinator {
	w.t.Helper()
	var out *coordinator
	eventually(w.t, "one coordinator serves", func() error {
		out = nil
		for _, c := range w.coordinators {
			switch {
			case c.serves.Load() == 0:
			case out != nil:
				return fmt.Errorf("%s and %s do", out.id.Slot, c.id.Slot)
			default:
				out = c
			}
		}
		if out == nil {
			return fmt.Errorf("none does")
		}
		return nil
	})
	return out
}

// place of a coordinator's server among all.
func (w *world) place(c *coordinator) int {
	for i, other := range w.coordinators {
		if other == c {
			return i
		}
	}
	panic("not of this world")
}

// eventually repeats try until it succeeds.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	end := time.NewTimer(2 * limit)
	defer end.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// authority is a cluster's CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t), pool: x509.NewCertPool()}
	a.cert = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: clusterName}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.key).Leaf
	a.pool.AddCert(a.cert)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) tls.Certificate {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := template
	if a.cert != nil {
		parent = a.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// issue makes the certificate of a Boot of a Slot.
func (a *authority) issue(t *testing.T, id overlay.ID) tls.Certificate {
	t.Helper()
	name, err := url.Parse(id.String())
	if err != nil {
		t.Fatal(err)
	}
	return a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: id.Slot}, URIs: []*url.URL{name}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, newKey(t))
}
