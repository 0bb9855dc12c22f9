package route

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"cadre.dev/core/group"
)

// Missing are the records that exist and cannot be read, by the names in their keys: the
// accepted specs and meshes of groups, and the addresses of routes.
type Missing struct {
	Specs, Routes, ServiceMeshes map[string]bool
}

// Partly is the desired service layer, as far as the readable records define it. A group whose
// record is missing is absent from ServiceMeshes, and its part stays unchanged.
type Partly struct {
	Decided

	// left are the names whose entries in Consul, or whose group, are unknown.
	left map[string]bool
	// dark: no record of some group can be read, so a name without a group may be its own.
	dark bool
}

// Leaves reports whether Consul's entries of a name stay unchanged, because no decision shows that
// the name is unused.
func (p Partly) Leaves(name string) bool {
	decided := slices.ContainsFunc(p.Config.Services, func(s Service) bool { return s.Name == name }) ||
		slices.ContainsFunc(p.Config.Routes, func(r Redirect) bool { return r.Route == name })
	return !decided && (p.dark || p.left[name])
}

// DecidePartly is [Decide] while records are missing. Readable specs apply at once, also when they
// take a permission away. A change that a missing record could contradict is deferred, and reported
// as an error:
//
//	a spec     its group's services, and the routes to them, stay unchanged; no name is
//	           given that the spec may have taken
//	a mesh     no port is given to its group, so no new service of it has a route
//	a route    no address is given, because it may be this route's; callers keep their address
func DecidePartly(k Known, m Missing) (Partly, error) {
	if len(m.Specs)+len(m.Routes)+len(m.ServiceMeshes) == 0 {
		decided, err := Decide(k)
		return Partly{Decided: decided}, err
	}
	known := Known{Specs: maps.Clone(k.Specs), Accepted: k.Accepted, Routes: maps.Clone(k.Routes), ServiceMeshes: maps.Clone(k.ServiceMeshes)}
	s := readable{Known: known, missing: m, out: Partly{left: map[string]bool{}}}
	s.addresses()
	for _, name := range slices.Sorted(maps.Keys(k.Specs)) {
		s.Specs[name] = s.deferRoutes(k.Specs[name])
	}
	for name := range m.ServiceMeshes {
		s.ServiceMeshes[name] = s.holding(name)
	}
	for name := range m.Specs {
		s.Specs[name] = group.Spec{Name: name} // it is there, so others may allow it
	}
	decided, err := Decide(s.Known)
	s.out.Decided = decided
	s.keep(k)
	return s.out, errors.Join(append(s.errs, err)...)
}

// keep preserves the content of the missing records: Decide's parts never replace them, and other
// groups' parts keep their entries of groups without a spec.
func (s *readable) keep(k Known) {
	for name := range s.missing.Specs {
		s.out.dark = s.out.dark || s.missing.ServiceMeshes[name]
	}
	for name, r := range k.Routes {
		if s.missing.Specs[r.Group] {
			s.out.left[name] = true
		}
	}
	for name := range s.Specs { // a removed group has no part
		before, mesh := k.ServiceMeshes[name], s.out.ServiceMeshes[name]
		mesh.Group = name
		// The address of a route without callers is unknown: such a route leads nowhere.
		mesh.Routes = slices.DeleteFunc(mesh.Routes, func(r group.RouteTo) bool { return !r.VIP.IsValid() })
		for _, r := range before.Routes {
			if s.missing.Specs[r.Group] {
				mesh.Routes = append(mesh.Routes, r)
				s.out.left[r.Name], s.out.left[r.Service] = true, true
			}
		}
		if s.missing.Specs[name] {
			letAsBefore(mesh.Routes, before.Routes)
		}
		mesh.Proxies = s.proxies(name, before, mesh)
		s.put(name, mesh)
	}
	for name := range s.out.ServiceMeshes {
		if s.missing.ServiceMeshes[name] {
			delete(s.out.ServiceMeshes, name)
		}
	}
}

// letAsBefore keeps the pooler users and secrets that their group allowed, while its spec is
// unreadable: an unreadable record locks no permitted user out.
func letAsBefore(routes, before []group.RouteTo) {
	for i, r := range routes {
		at := slices.IndexFunc(before, func(b group.RouteTo) bool { return b.Name == r.Name && b.Group == r.Group })
		if at < 0 {
			continue
		}
		for user, secret := range before[at].PoolerUsers {
			if now, declared := r.PoolerRefused[user]; !declared || now != secret {
				continue
			}
			if routes[i].PoolerUsers == nil {
				routes[i].PoolerUsers = map[string]string{}
			}
			routes[i].PoolerUsers[user] = secret
			delete(routes[i].PoolerRefused, user)
		}
		if len(routes[i].PoolerRefused) == 0 {
			routes[i].PoolerRefused = nil
		}
	}
}

// proxies returns a group's proxies: the proxies of its own services unchanged while its spec is
// missing, and the proxy that carries calls if the group has any route.
func (s *readable) proxies(name string, before, mesh group.ServiceMesh) []group.Proxy {
	out := slices.DeleteFunc(mesh.Proxies, group.Proxy.Calls)
	if s.missing.Specs[name] {
		for _, p := range before.Proxies {
			if !p.Calls() {
				out = append(out, p)
				s.out.left[p.Service] = true
			}
		}
	}
	if len(mesh.Routes) > 0 {
		out = append(out, group.Proxy{ID: group.ProxyOf(name), Service: name})
	}
	return out
}

func (s *readable) put(name string, mesh group.ServiceMesh) {
	if len(mesh.Proxies)+len(mesh.Routes) == 0 {
		delete(s.out.ServiceMeshes, name)
		return
	}
	slices.SortFunc(mesh.Proxies, func(a, b group.Proxy) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(mesh.Routes, func(a, b group.RouteTo) int { return cmp.Compare(a.Name, b.Name) })
	s.out.ServiceMeshes[name] = mesh
}

// addresses completes the missing routes with the addresses that their callers have. Where
// they do not agree, or none has one, the address stays unknown.
func (s *readable) addresses() {
	for name := range s.missing.Routes {
		var found []Record
		for _, mesh := range s.ServiceMeshes {
			for _, r := range mesh.Routes {
				if r.Name == name {
					found = append(found, Record{Route: name, VIP: r.VIP, Group: r.Group})
				}
			}
		}
		switch declaring := s.declaring(name); {
		case len(found) > 0 && !slices.ContainsFunc(found, func(r Record) bool { return r != found[0] }):
			s.Routes[name] = found[0]
		case len(found) == 0 && len(declaring) == 1 && len(s.missing.Specs) == 0:
			// No other group can have the route: its entries in Consul have no address and follow
			// its spec.
			s.Routes[name] = Record{Route: name, VIP: netip.Addr{}, Group: declaring[0]}
		default:
			delete(s.Routes, name)
			s.out.left[name] = true
		}
	}
}

func (s *readable) declaring(route string) (out []string) {
	for name, spec := range s.Specs {
		if declares(spec, route) {
			out = append(out, name)
		}
	}
	return out
}
