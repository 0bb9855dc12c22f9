package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/consulproxy"
	"cadre.dev/agent/internal/control"
	"cadre.dev/agent/internal/envoy"
	"cadre.dev/agent/internal/handover"
	"cadre.dev/agent/internal/health"
	"cadre.dev/agent/internal/pooler"
	"cadre.dev/agent/internal/xdsrelay"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

const (
	// envoyStop is the rest of the parent's 8 s after workloads had time to leave.
	envoyStop = 2 * time.Second
	// Poolers run as poolerID. No other process of the agent's container does.
	poolerID = 61070
)

// service is this CVM's part in the service layer: its Envoys, their connection to coordinators,
// and the holders in front of routes. It is nil without a service layer.
type service struct {
	envoys *envoy.Supervisor
	relay  *xdsrelay.Relay
	routes *handover.Routes
	// looks at the Envoy that carries calls, for all routes.
	looks looks
	// poolers is their folder.
	poolers string
}

// newService makes the parts; nothing runs yet.
func (a *Agent) newService() (*service, error) {
	cfg := a.cfg
	if cfg.XDS == "" {
		return nil, nil //nolint:nilnil // as the flag wants it
	}
	at, err := netip.ParseAddrPort(cfg.XDS)
	if err != nil {
		return nil, fmt.Errorf("--xds: %w", err)
	}
	s := &service{poolers: filepath.Join(cfg.RunDir, "pooler")}
	// Poolers, which are not root, pass through; nothing can be listed.
	if err := errors.Join(os.MkdirAll(s.poolers, 0o711), os.Chmod(s.poolers, 0o711), os.Chmod(cfg.RunDir, 0o711)); err != nil { //nolint:gosec // the files are 0600
		return nil, fmt.Errorf("folder of poolers: %w", err)
	}
	if s.envoys, err = envoy.New(envoy.Config{
		Binary: program(cfg.Envoy), RunDir: filepath.Join(cfg.RunDir, "envoy"), XDS: at, StopWithin: envoyStop, Leaves: leaves, Log: cfg.Log,
	}); err != nil {
		return nil, err
	}
	s.looks.ask = s.envoys.Clusters
	s.relay = xdsrelay.New(xdsrelay.Config{Address: cfg.XDS, Listen: cfg.Parent.Listen, Log: cfg.Log})
	s.routes = handover.New(handover.Config{
		Dir: s.poolers, Binary: program(cfg.PgBouncer), UID: poolerID, GID: poolerID, Keep: true, Listen: cfg.Parent.Listen,
		Endpoints: a.endpoints, VIP: a.vipOf, Log: cfg.Log,
	})
	return s, nil
}

// program returns the path of name: from PATH, or from the agent's image. If neither has it,
// starting the program fails with the reason.
func program(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	for _, at := range []string{name, filepath.Join("/usr/local/bin", name), filepath.Join("/usr/sbin", name)} {
		if path, err := exec.LookPath(at); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
	}
	return filepath.Join("/usr/local/bin", name)
}

// leaves reports whether another process of this Boot follows after that cause.
func leaves(cause error) bool {
	_, ended := errors.AsType[*admit.EndedError](cause)
	return cause != nil && !ended && !errors.Is(cause, context.Canceled) && !errors.Is(cause, errMoved)
}

// run runs all parts until ctx ends.
func (s *service) run(ctx context.Context, a *Agent) error {
	if s == nil {
		return nil
	}
	// A worker that died within a pause left clients waiting.
	if err := pooler.ResumeAll(ctx, s.poolers, a.cfg.Log); err != nil {
		a.cfg.Log.Warn("poolers of the previous process may still be paused", "error", err)
	}
	return runAll(ctx, s.envoys.Run, s.relay.Run, s.routes.Run)
}

// open has Envoys reach coordinators from now on.
func (s *service) open(a *Agent, slot string) {
	if s == nil {
		return
	}
	node := a.node.Load()
	s.relay.Open(consulproxy.Way{
		Self: slot, Coordinators: a.coordinators,
		Dial: func(ctx context.Context, id overlay.ID) (net.Conn, error) {
			return node.DialService(ctx, id, group.ConsulXDSPort)
		},
	})
}

// shut ends the service layer of this Boot, which lost its Slot.
func (s *service) shut() {
	if s == nil {
		return
	}
	s.relay.Shut()
	s.envoys.Set(nil)
	_ = s.routes.Set(nil) // none has nothing wrong
}

// set applies the group's service mesh to the parts.
func (s *service) set(a *Agent, slot string, mesh group.ServiceMesh) error {
	if s == nil {
		if len(mesh.Proxies) > 0 {
			return errors.New("mesh: this agent was started without --xds, so it runs no proxies and no routes")
		}
		return nil
	}
	proxies := make([]envoy.Proxy, 0, len(mesh.Proxies))
	for _, p := range mesh.Proxies {
		proxies = append(proxies, envoy.Proxy{ID: p.ID, Service: p.Service, Node: slot})
	}
	routes := make([]handover.Route, 0, len(mesh.Routes))
	var refused []error
	for _, r := range mesh.Routes {
		for _, user := range slices.Sorted(maps.Keys(r.PoolerRefused)) {
			refused = append(refused, fmt.Errorf("route %s: its pooler does not know the user %q: this group has no secret %q, or does not name the route in its pooler_routes", r.Name, user, r.PoolerRefused[user]))
		}
		users := map[string]string{}
		for user, name := range r.PoolerUsers {
			if users[user] = ""; name != "" {
				users[user] = filepath.Join(a.cfg.MeshDir, "secrets", name)
			}
		}
		routes = append(routes, handover.Route{
			Name: r.Name, Group: r.Group, Role: r.Role, VIP: r.VIP, Behind: r.Behind(), Port: uint16(r.Port),
			Pause: r.Hold.D(), Pooler: r.Pooler, Users: users,
		})
	}
	err := errors.Join(append(refused, s.routes.Set(routes))...)
	s.envoys.Set(proxies)
	return err
}

// endpoints returns the endpoints of a route in this CVM's own Envoy, at most age old.
func (a *Agent) endpoints(ctx context.Context, name string, age time.Duration) ([]netip.AddrPort, error) {
	config, _ := a.config.Get()
	if config == nil {
		return nil, errors.New("there is no configuration yet")
	}
	for _, r := range config.ServiceMesh.Routes {
		if r.Name != name {
			continue
		}
		clusters, err := a.service.looks.clusters(ctx, group.ProxyOf(config.Group), age)
		if err != nil {
			return nil, err
		}
		return of(clusters, r), nil
	}
	return nil, fmt.Errorf("there is no route %q", name)
}

// of are the endpoints of a route among an Envoy's clusters. Consul names a cluster
// [<hash>~]<subset>.<service>.<namespace>.<datacenter>.internal.<trust domain>.
func of(clusters []envoy.Cluster, r group.RouteTo) []netip.AddrPort {
	subset := r.Role
	if subset == "" {
		subset = group.AnyRole
	}
	var out []netip.AddrPort
	for _, c := range clusters {
		name := c.Name
		if _, rest, customised := strings.Cut(name, "~"); customised {
			name = rest
		}
		if !strings.HasPrefix(name, subset+"."+r.Service+".") {
			continue
		}
		for _, e := range c.Endpoints {
			if e.Healthy {
				out = append(out, e.Address)
			}
		}
	}
	return out
}

// checks are the health checks of the spec, and one for each proxy.
func (a *Agent) checks() []health.Result {
	out := a.checker.Results()
	if a.service == nil {
		return out
	}
	proxies := a.service.envoys.Checks()
	if config, _ := a.config.Get(); config != nil {
		proxies = informCalls(proxies, config.Group)
	}
	return append(out, proxies...)
}

// informCalls makes the result of the proxy for outgoing calls informative only. Another group's
// spec makes this group its caller: otherwise it could take this group's members out of service.
func informCalls(proxies []health.Result, groupName string) []health.Result {
	for n := range proxies {
		proxies[n].Informative = proxies[n].Name == group.ProxyCheck(group.ProxyOf(groupName))
	}
	return proxies
}

// changed is closed at the next change of an Envoy's state.
func (s *service) changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	_, index := s.envoys.Statuses().Get()
	return s.envoys.Statuses().Changed(index)
}

// routePauser implements control.RoutePauser.
type routePauser struct{ a *Agent }

// Pause implements control.RoutePauser.
func (h routePauser) Pause(ctx context.Context, groupName, operation string) []control.PausedRoute {
	if h.a.service == nil {
		return nil
	}
	var out []control.PausedRoute
	for _, r := range h.a.service.routes.Pause(ctx, groupName, operation, 0) {
		paused := r.State == handover.Waiting || r.State == handover.Paused
		message := r.Message
		if !paused && message == "" {
			message = string(r.State)
		}
		out = append(out, control.PausedRoute{Route: r.Route, Paused: paused, Message: message})
	}
	return out
}

// Release implements control.RoutePauser.
func (h routePauser) Release(groupName, operation, leader string) {
	if config, _ := h.a.config.Get(); config != nil && config.Group == groupName && config.Slot == leader {
		// This member leads now: callers that wait for it use the member's own view.
		h.a.member.Kick()
	}
	if h.a.service != nil {
		h.a.service.routes.Release(groupName, operation, leader)
	}
}
