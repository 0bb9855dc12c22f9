package servicelayertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"cadre.dev/agent/internal/consulproxy"
	"cadre.dev/agent/internal/control"
	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/durable"
	"cadre.dev/agent/internal/envoy"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/member"
	"cadre.dev/agent/internal/report"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/agent/internal/xdsrelay"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

// MachineConfig is one machine whose Boot has its certificate. All fields are required.
type MachineConfig struct {
	Self        overlay.ID
	VIP         netip.Addr
	Credentials overlay.Credentials
	// Listen is where Sessions come in.
	Listen  string
	Gateway overlay.Gateway
	// Peers is the map that it begins with.
	Peers []overlay.Peer
	// Dir is its own, with a short path.
	Dir string
	// Envoy is the program.
	Envoy string
	// Consul and XDS are where it listens for workloads and for Envoys.
	Consul, XDS netip.AddrPort
	Log         *slog.Logger
}

// Machine is an agent's service layer, made of the same parts: overlay, control sessions, Consul
// proxy, Envoys and their connection to coordinators. The test plays its driver (Say) and may make
// the agent use a wrong configuration (Alter, Pretend). Its methods may be called concurrently.
type Machine struct {
	cfg         MachineConfig
	node        *overlay.Node
	hub         *control.Hub
	disk        *durable.Disk
	consulProxy *consulproxy.Proxy
	relay       *xdsrelay.Relay
	envoys      *envoy.Supervisor

	changed latestvalue.Value[struct{}]
	peers   latestvalue.Value[[]overlay.Peer] // as coordinators gave them
	alter   latestvalue.Value[func([]overlay.Peer) []overlay.Peer]

	mu     sync.Mutex
	member member.State // guarded by mu
}

// EnvoyStatus is how an Envoy is.
type EnvoyStatus = envoy.Status

// NewMachine makes one; nothing runs before Run.
func NewMachine(cfg MachineConfig) (*Machine, error) {
	m := &Machine{cfg: cfg, disk: durable.OpenDisk(filepath.Join(cfg.Dir, "state"), cfg.Log)}
	m.peers.Set(cfg.Peers)
	var err error
	if m.envoys, err = envoy.New(envoy.Config{Binary: cfg.Envoy, RunDir: filepath.Join(cfg.Dir, "envoy"), XDS: cfg.XDS, StopWithin: 1100 * time.Millisecond, Log: cfg.Log}); err != nil {
		return nil, err
	}
	builder := report.NewBuilder(report.Sources{
		AgentSpec: func() string { return "" }, Member: m.state, Checks: m.envoys.Checks, Results: func() []lifecycle.Result { return nil }, Epochs: func() map[string]uint32 { return nil },
		Backends: func() []selfreport.State { return nil }, Faults: m.disk.Faults, BootAt: time.Now(),
	})
	if m.hub, err = control.New(control.Config{Disk: m.disk, Report: builder.Build, ReportChanged: &m.changed, Log: cfg.Log}); err != nil {
		return nil, err
	}
	listen := (&net.ListenConfig{}).Listen
	m.consulProxy = consulproxy.New(consulproxy.Config{Address: cfg.Consul.String(), Listen: listen, Log: cfg.Log})
	m.relay = xdsrelay.New(xdsrelay.Config{Address: cfg.XDS.String(), Listen: listen, Log: cfg.Log})
	if m.node, err = overlay.New(overlay.Config{
		Self: cfg.Self, SelfVIP: cfg.VIP, Listen: cfg.Listen, Gateway: cfg.Gateway, Paths: []overlay.PathKind{overlay.PathGateway}, Log: cfg.Log,
		Private:   group.PrivatePorts(cfg.Consul.String(), cfg.XDS.String(), cfg.Listen),
		OnControl: m.hub.Serve, OnDemand: true,
	}); err != nil {
		return nil, err
	}
	m.node.SetCredentials(cfg.Credentials)
	m.node.SetPeers(cfg.Peers)
	m.consulProxy.Open(m.way(group.ConsulHTTPPort))
	m.relay.Open(m.way(group.ConsulXDSPort))
	return m, nil
}

func (m *Machine) way(port uint16) consulproxy.Way {
	return consulproxy.Way{Self: m.cfg.Self.Slot, Coordinators: m.coordinators, Dial: func(ctx context.Context, id overlay.ID) (net.Conn, error) {
		return m.node.DialService(ctx, id, port)
	}}
}

// coordinators are those of the peer map.
func (m *Machine) coordinators() (out []consulproxy.Coordinator) {
	up := map[overlay.ID]bool{}
	for _, s := range m.node.Sessions() {
		up[s.Peer] = s.State == overlay.SessionUp
	}
	list, _ := m.peers.Get()
	for _, p := range list {
		if p.Coordinator {
			out = append(out, consulproxy.Coordinator{ID: p.ID, Up: up[p.ID]})
		}
	}
	return out
}

// Run is the machine until ctx ends.
func (m *Machine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, part := range []func(context.Context) error{
		m.node.Run, m.hub.Run, m.disk.Run, m.consulProxy.Run, m.relay.Run, m.envoys.Run, m.applyDesired, m.takePeers, m.applyPeers, m.watchEnvoys,
	} {
		all.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// applyDesired runs the Envoys of the desired service mesh.
func (m *Machine) applyDesired(ctx context.Context) error {
	var index uint64
	for {
		desired, now, err := m.hub.Desired().Wait(ctx, index)
		if err != nil {
			return nil //nolint:nilerr // only ctx ends it
		}
		index = now
		if len(desired.GetConfigJson()) == 0 {
			continue
		}
		var config group.AgentConfig
		if err := json.Unmarshal(desired.GetConfigJson(), &config); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
		m.Pretend(config.ServiceMesh)
	}
}

// Pretend runs the Envoys of mesh instead of the coordinators' configuration.
func (m *Machine) Pretend(mesh group.ServiceMesh) {
	proxies := make([]envoy.Proxy, 0, len(mesh.Proxies))
	for _, p := range mesh.Proxies {
		proxies = append(proxies, envoy.Proxy{ID: p.ID, Service: p.Service, Node: m.cfg.Self.Slot})
	}
	m.envoys.Set(proxies)
}

// takePeers takes each newest peer map.
func (m *Machine) takePeers(ctx context.Context) error {
	var index uint64
	for {
		list, now, err := m.hub.Peers().Wait(ctx, index)
		if err != nil {
			return nil //nolint:nilerr // only ctx ends it
		}
		if index = now; list != nil {
			m.peers.Set(list)
		}
	}
}

// applyPeers hands the peer map to the overlay.
func (m *Machine) applyPeers(ctx context.Context) error {
	for {
		list, index := m.peers.Get()
		alter, altered := m.alter.Get()
		if alter != nil {
			list = alter(list)
		}
		m.node.SetPeers(list)
		select {
		case <-ctx.Done():
			return nil
		case <-m.peers.Changed(index):
		case <-m.alter.Changed(altered):
		}
	}
}

// Alter has the overlay get f of each peer map instead of the map.
func (m *Machine) Alter(f func([]overlay.Peer) []overlay.Peer) { m.alter.Set(f) }

// watchEnvoys has each change of an Envoy's state reported.
func (m *Machine) watchEnvoys(ctx context.Context) error {
	var index uint64
	for {
		_, now, err := m.envoys.Statuses().Wait(ctx, index)
		if err != nil {
			return nil //nolint:nilerr // only ctx ends it
		}
		index = now
		m.changed.Set(struct{}{})
	}
}

// Say sets the driver's report of the member: its role, and whether it may be used.
func (m *Machine) Say(role string, ready bool) {
	m.mu.Lock()
	m.member = member.State{Known: true, View: driver.View{Role: driver.Role(role), Liveness: driver.LivenessAlive, Ready: ready, CaughtUp: &ready}}
	m.mu.Unlock()
	m.changed.Set(struct{}{})
}

func (m *Machine) state() member.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.member
}

// Envoys is how they are.
func (m *Machine) Envoys() []EnvoyStatus { return m.envoys.Status() }

// Sessions are the Links to all Peers.
func (m *Machine) Sessions() []overlay.SessionInfo { return m.node.Sessions() }

// Listening is where Sessions come in; nil: not yet.
func (m *Machine) Listening() net.Addr { return m.node.ListenAddr() }
