package route

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"cadre.dev/core/group"
)

// Known is the input of the decision.
type Known struct {
	// Specs in force, by group.
	Specs map[string]group.Spec
	// Accepted is when each was accepted last; a lower number is earlier.
	Accepted map[string]uint64
	// Routes are all records routes/<route>, by route.
	Routes map[string]Record
	// Meshes are the records mesh/<group>, by group: ports stay that they give.
	ServiceMeshes map[string]group.ServiceMesh
}

// Decided is the desired service layer.
type Decided struct {
	// Meshes by group; only of groups that have any part in it.
	ServiceMeshes map[string]group.ServiceMesh
	// Routes that have no record yet, or whose record names another group.
	Routes map[string]Record
	// Config of Consul.
	Config Config
}

// Decide computes the desired service layer. An error names the addresses and ports that could not
// be given; the other parts are decided. Decide does not change Known, and the answer shares no
// written data with it.
func Decide(k Known) (Decided, error) {
	d := decider{Known: k, out: Decided{ServiceMeshes: map[string]group.ServiceMesh{}, Routes: map[string]Record{}}, taken: map[netip.Addr]bool{}}
	for _, r := range k.Routes {
		d.taken[r.VIP] = true
	}
	d.has = holders(k)
	for _, name := range slices.Sorted(maps.Keys(k.Specs)) {
		spec := d.own(k.Specs[name])
		d.backends(spec)
		for _, r := range sorted(spec.Routes, func(r group.Route) string { return r.Name }) {
			d.route(spec, r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.out.ServiceMeshes)) {
		mesh := d.out.ServiceMeshes[name]
		d.aliases(mesh.Routes, k.ServiceMeshes[name].Routes)
		slices.SortFunc(mesh.Proxies, func(a, b group.Proxy) int { return cmp.Compare(a.ID, b.ID) })
		slices.SortFunc(mesh.Routes, func(a, b group.RouteTo) int { return cmp.Compare(a.Name, b.Name) })
		d.out.ServiceMeshes[name] = mesh
	}
	return d.out, errors.Join(d.errs...)
}

type decider struct {
	Known

	out   Decided
	taken map[netip.Addr]bool
	has   map[string]string // which group has a name
	errs  []error
}

// backends puts a proxy before each backend that a route leads to.
func (d *decider) backends(spec group.Spec) {
	ports := ports(d.ServiceMeshes[spec.Name])
	for _, b := range sorted(spec.Backends, func(b group.Backend) string { return b.Name }) {
		if !routed(spec, b) {
			continue
		}
		service := spec.Service(b)
		port, err := ports.give(service)
		if err != nil {
			d.errs = append(d.errs, fmt.Errorf("group %s: backend %s: %w", spec.Name, b.Name, err))
			continue
		}
		d.add(spec.Name, group.Proxy{
			ID: group.ProxyOf(service), Service: service, Backend: b.Name, Port: port,
			Owner: cmp.Or(b.Registration.Owner, group.OwnerPlatform), TTL: ttl(b.Registration),
			LocalPort: b.Port, Loopback: b.Address == group.LoopbackAddress, Callers: d.callers(b),
		})
		d.out.Config.service(service, d.callers(b), roles(spec, b.Name))
	}
}

func ttl(r group.Registration) group.Duration {
	if r.Owner == group.OwnerWorkload {
		return cmp.Or(r.TTL, group.Duration(group.DefaultRegistrationTTL))
	}
	return 0
}

// callers are the groups that b allows and that exist: until a group does, its name may be
// that of something else.
func (d *decider) callers(b group.Backend) []string {
	var out []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(b.Allow))) {
		if _, known := d.Specs[name]; known {
			out = append(out, name)
		}
	}
	return out
}

func roles(spec group.Spec, backend string) []string {
	var out []string
	for _, r := range spec.Routes {
		if r.Backend == backend && r.Role != "" {
			out = append(out, r.Role)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// route gives r an address, and to its callers.
func (d *decider) route(spec group.Spec, r group.Route) {
	at := slices.IndexFunc(spec.Backends, func(b group.Backend) bool { return b.Name == r.Backend })
	if at < 0 {
		return // Validate says so
	}
	if !proxied(d.out.ServiceMeshes[spec.Name], spec.Service(spec.Backends[at])) {
		return // reported already
	}
	record, has := d.Routes[r.Name]
	if !has {
		vip, err := allot(r.Name, d.taken)
		if err != nil {
			d.errs = append(d.errs, err)
			return
		}
		record = Record{Route: r.Name, VIP: vip}
		d.taken[vip] = true
	}
	if record.Group != spec.Name {
		record.Group = spec.Name
		d.out.Routes[r.Name] = record
	}
	b := spec.Backends[at]
	service := spec.Service(b)
	d.out.Config.route(r.Name, service, r.Role)
	for _, caller := range d.callers(b) {
		d.add(caller, group.Proxy{ID: group.ProxyOf(caller), Service: caller})
		mesh := d.out.ServiceMeshes[caller]
		let, refused := poolerUsers(d.Specs[caller], r)
		mesh.Routes = append(mesh.Routes, group.RouteTo{
			Name: r.Name, Alias: r.Alias, Group: spec.Name, Backend: b.Name, Service: service, Role: r.Role, VIP: record.VIP, Port: b.Port,
			Hold: group.Duration(r.HoldLimit()), Pooler: r.Pooler,
			PoolerUsers: let, PoolerRefused: refused,
		})
		d.out.ServiceMeshes[caller] = mesh
	}
}

// poolerUsers splits the users of a route into the permitted ones at a caller's pooler and the
// refused ones. A caller's secret must name the route: otherwise the author of a route could send
// any secret of its callers to its own backend.
func poolerUsers(caller group.Spec, r group.Route) (let, refused map[string]string) {
	secrets := caller.AllSecrets()
	for user, name := range r.PoolerUsers {
		of := &let
		if name != "" && !slices.ContainsFunc(secrets, func(s group.Secret) bool { return s.Name == name && slices.Contains(s.PoolerRoutes, r.Name) }) {
			of = &refused
		}
		if *of == nil {
			*of = map[string]string{}
		}
		(*of)[user] = name
	}
	return let, refused
}

// add has the members of a group run a proxy.
func (d *decider) add(name string, p group.Proxy) {
	mesh := d.out.ServiceMeshes[name]
	mesh.Group = name
	if !slices.ContainsFunc(mesh.Proxies, func(q group.Proxy) bool { return q.ID == p.ID }) {
		mesh.Proxies = append(mesh.Proxies, p)
	}
	d.out.ServiceMeshes[name] = mesh
}

// portBook is which proxy ports of one group's members are given, by service.
type portBook map[string]int

func ports(before group.ServiceMesh) portBook {
	out := portBook{}
	for _, p := range before.Proxies {
		if p.Port != 0 {
			out[p.Service] = p.Port
		}
	}
	return out
}

// give returns the port of a service: its present port, or the first free one.
func (b portBook) give(service string) (int, error) {
	if port, has := b[service]; has {
		return port, nil
	}
	for port := group.FirstProxyPort; port <= group.LastProxyPort; port++ {
		if !slices.Contains(slices.Collect(maps.Values(b)), port) {
			b[service] = port
			return port, nil
		}
	}
	return 0, fmt.Errorf("give it a port of %d to %d: %w", group.FirstProxyPort, group.LastProxyPort, ErrExhausted)
}

func sorted[T any](list []T, name func(T) string) []T {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return out
}
