package consulproxy_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/coordinatortest"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/overlaytest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// layerName is the cluster's: the coordinators' own CA takes one label.
const layerName = "layer"

// layer is a cluster with a service layer: real Consul servers with a coordinator before each,
// and machines with real Envoys. Records accept the specs and admit the Boots: the test has no
// attestation, and no platform that lists instances. The test plays the drivers' reports;
// everything after them is real.
type layer struct {
	t            *testing.T
	log          *slog.Logger
	front        *overlaytest.Gateway
	consul       *storetest.Cluster
	store        store.Store
	coordinators []*layerCoordinator
	envoy        string
	specs        map[string]group.Spec
	slots        int // that have a VIP
}

type layerCoordinator struct {
	*coordinatortest.Layer

	slot   string
	name   string // by which gateways know it
	way    *overlaytest.Gateway
	server *storetest.ClusterServer
}

// newLayer starts the coordinators with these groups accepted.
func newLayer(t *testing.T, specs ...group.Spec) *layer {
	t.Helper()
	l := &layer{t: t, log: slog.New(slog.NewTextHandler(t.Output(), nil)), front: overlaytest.NewGateway(t), envoy: envoyProgram(t), specs: map[string]group.Spec{}}
	l.consul = storetest.StartConsulCluster(t, coordinators)
	var err error
	if l.store, err = store.NewConsul(store.ConsulConfig{Address: l.consul.Servers[0].Addr, Token: l.consul.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	var instances []string
	for n := range coordinators {
		instances = append(instances, fmt.Sprintf("c%d", n))
	}
	for n := range coordinators {
		c := &layerCoordinator{slot: fmt.Sprintf("coordinator-%d", n), name: instances[n], way: overlaytest.NewGateway(t), server: l.consul.Servers[n]}
		if c.Layer, err = coordinatortest.NewLayer(t.Context(), coordinatortest.LayerConfig{
			Cluster: layerName, N: n, Instances: instances, Consul: c.server.Addr, XDS: c.server.XDS, Token: l.consul.ManagementToken,
			Gateway: l.gateway(), Log: l.log.With("self", c.slot),
		}); err != nil {
			t.Fatal(err)
		}
		l.run(c.slot, c.Run)
		l.coordinators = append(l.coordinators, c)
	}
	for _, c := range l.coordinators {
		eventually(t, c.slot+" listens", func() error {
			if c.Listening() == nil {
				return errors.New("it does not")
			}
			return nil
		})
		routed := l.gateway().Name(c.name)
		l.front.Route(routed, c.way.Address())
		c.way.Route(routed, c.Listening().String())
	}
	// Records that a leader writes are of a Term, and before the first leader there is none.
	l.leader()
	for _, s := range specs {
		l.accept(s)
	}
	return l
}

// leader is the coordinator that leads.
func (l *layer) leader() (leads *layerCoordinator) {
	l.t.Helper()
	eventually(l.t, "a coordinator leads", func() error {
		for _, leads = range l.coordinators {
			if leads.Leads() {
				return nil
			}
		}
		return errors.New("none does")
	})
	return leads
}

func (l *layer) gateway() overlay.Gateway {
	return overlay.Gateway{Domain: "gw.test", Address: l.front.Address()}
}

func (l *layer) run(what string, f func(context.Context) error) {
	(&world{t: l.t}).run(what, f)
}

// put writes a record unconditionally.
func (l *layer) put(key string, value any) {
	l.t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		l.t.Fatal(err)
	}
	// Consul may lose its leader on a machine that has much else to do.
	eventually(l.t, "write "+key, func() error {
		return l.store.Commit(l.t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: raw})
	})
}

// accept has a spec be in force.
func (l *layer) accept(s group.Spec) {
	l.t.Helper()
	s.Platform, s.Template = "phala", group.Template{
		Compose: "services:\n  x:\n    image: example.org/x@sha256:" + strings.Repeat("a", 64) + "\n", InstanceType: "tdx.small", OSImage: "dstack-0.5.7",
	}
	s.Normalize()
	if err := group.Validate(s); err != nil {
		l.t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		l.t.Fatal(err)
	}
	l.specs[s.Name] = s
	l.put(store.GroupAcceptedKey(s.Name), store.AcceptedSpec{Group: s.Name, SpecIndex: 1, Spec: raw, Term: 1, At: time.Now()})
}

// database is a group with one route to its leader and another to its replicas.
func database(replicas int, allow ...string) group.Spec {
	return group.Spec{
		Name: "pg", Replicas: replicas, Workload: group.Workload{Kind: group.WorkloadPatroni},
		Backends: []group.Backend{
			{Name: "pg", Port: 5432, Address: group.LoopbackAddress, Allow: allow},
			{Name: "side", Port: 9000, Address: group.LoopbackAddress, Allow: []string{"other"}},
		},
		Routes: []group.Route{{Name: "pg-master", Backend: "pg", Role: "leader"}, {Name: "pg-replica", Backend: "pg", Role: "follower"}},
	}
}

// Identities and ports of database's proxies.
const (
	backendProxy = "pg-pg-sidecar-proxy"
	callerProxy  = "web-sidecar-proxy"
)

// boot is a machine's identity, admitted or not.
type boot struct {
	id   overlay.ID
	vip  netip.Addr
	cert tls.Certificate
	ca   []byte
	// instance is where gateways find it.
	instance string
}

// boot makes a Boot of a Slot with the credentials of an admission.
func (l *layer) boot(groupName string, n int) boot {
	l.t.Helper()
	slot := group.SlotName(groupName, n)
	l.slots++
	b := boot{
		id:  overlay.ID{Cluster: layerName, Group: groupName, Slot: slot},
		vip: vip(3, l.slots), instance: fmt.Sprintf("%040x", l.slots),
	}
	var err error
	if b.cert, b.ca, err = l.coordinators[0].Admit(groupName, slot); err != nil {
		l.t.Fatal(err)
	}
	l.put(store.SlotKey(groupName, slot), group.SlotRecord{Group: groupName, Slot: slot, Ordinal: n, VIP: b.vip.String(), InstanceID: b.instance})
	l.put(store.SlotPolicyKey(slot), policy.SlotPolicy{Group: groupName, Slot: slot, InstanceID: b.instance, Epoch: 1, Term: 1})
	return b
}

// admit makes it its Slot's.
func (l *layer) admit(b boot) {
	l.t.Helper()
	l.put(store.AdmissionKey(b.id.Slot), policy.Admission{
		Group: b.id.Group, Slot: b.id.Slot, BootID: overlay.BootID(b.cert.Leaf), InstanceID: b.instance, Epoch: 1, Generation: 1,
		AdmittedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour), AttestedAt: time.Now(), Simulated: true, By: "coordinator-0",
	})
}

// start starts its machine.
func (l *layer) start(b boot, change func(*machineConfig)) *machine {
	l.t.Helper()
	cfg := machineConfig{
		Self: b.id, VIP: b.vip, CA: b.ca, Key: keyPEM(l.t, b.cert), Domain: l.gateway().Domain, Envoy: l.envoy,
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.cert.Certificate[0]}), Role: "none",
	}
	for _, c := range l.coordinators {
		cfg.Peers = append(cfg.Peers, c.Peer())
	}
	for _, one := range l.specs[b.id.Group].Backends {
		cfg.Workloads = append(cfg.Workloads, fmt.Sprintf("127.0.0.1:%d", one.Port))
	}
	if change != nil {
		change(&cfg)
	}
	m := startMachine(l.t, cfg, l.front.Address())
	l.reach(b, m)
	return m
}

// reach has the gateway lead to a machine.
func (l *layer) reach(b boot, m *machine) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.t.Context()))
	l.t.Cleanup(cancel)
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	accept(ctx, ln, func(conn net.Conn) { spliceTo(conn, "unix", m.dir+"/session") })
	l.front.Route(l.gateway().Name(b.instance), ln.Addr().String())
}

// member starts an admitted machine with a role.
func (l *layer) member(groupName string, n int, role string) (*machine, boot) {
	l.t.Helper()
	b := l.boot(groupName, n)
	l.admit(b)
	return l.start(b, func(cfg *machineConfig) { cfg.Role = role }), b
}

// mesh is a group's part in the service layer, once it has so many routes and proxies.
func (l *layer) mesh(name string, proxies, routes int) (m group.ServiceMesh) {
	l.t.Helper()
	eventually(l.t, "the part of "+name, func() (err error) {
		if m, _, err = store.Read[group.ServiceMesh](l.t.Context(), l.store, store.ServiceMeshKey(name)); err == nil && (len(m.Proxies) != proxies || len(m.Routes) != routes) {
			err = fmt.Errorf("it is %+v", m)
		}
		return err
	})
	return m
}

// address of a route, for its callers.
func address(m group.ServiceMesh, name string) string {
	at := slices.IndexFunc(m.Routes, func(r group.RouteTo) bool { return r.Name == name })
	return fmt.Sprintf("%s:%d", m.Routes[at].VIP, m.Routes[at].Port)
}

// admin asks a server that stands.
func (l *layer) admin(server int) *consul.Client {
	l.t.Helper()
	client, err := l.consul.Client(server)
	if err != nil {
		l.t.Fatal(err)
	}
	return client
}

// endpoints are the healthy endpoints of a role of pg in a caller's Envoy, by VIP.
func (l *layer) endpoints(m *machine, role string) ([]string, error) {
	text, err := m.admin(callerProxy, "/clusters")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, line := range strings.Split(text, "\n") {
		cluster, rest, _ := strings.Cut(line, "::")
		if at, _, is := strings.Cut(rest, "::health_flags::healthy"); is && strings.Contains(cluster, role+".pg-pg.") {
			host, _, _ := strings.Cut(at, ":")
			out = append(out, host)
		}
	}
	slices.Sort(out)
	return out, nil
}

// leads waits until a caller's Envoy leads a role to exactly these.
func (l *layer) leads(m *machine, role string, to ...boot) {
	l.t.Helper()
	want := []string{}
	for _, b := range to {
		want = append(want, b.vip.String())
	}
	slices.Sort(want)
	eventually(l.t, fmt.Sprintf("%s's envoy leads %s to %v", m.name, role, want), func() error {
		now, err := l.endpoints(m, role)
		if err == nil && !slices.Equal(now, want) {
			err = fmt.Errorf("it is %v", now)
		}
		return err
	})
}

// answers waits until a member answers at an address, and returns the time that took. Until
// then, no member of never may answer.
func (l *layer) answers(m *machine, address, who string, never ...string) time.Duration {
	l.t.Helper()
	begin := time.Now()
	eventually(l.t, fmt.Sprintf("%s answers %s at %s", who, m.name, address), func() error {
		got, err := m.request(address)
		if slices.Contains(never, got) {
			l.t.Errorf("%s answers at %s", got, address)
		}
		if err == nil && got != who {
			err = fmt.Errorf("%s does", got)
		}
		return err
	})
	return time.Since(begin)
}
