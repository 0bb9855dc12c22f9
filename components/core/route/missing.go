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

// Partly is what the service layer should be, as far as the records tell that can be read.
// A group's part whose record is missing is not in Meshes, and stays as it is.
type Partly struct {
	Decided

	// left are names of which it is not known what Consul should have, or whose they are.
	left map[string]bool
	// dark: of a group nothing can be read, so any name that nobody else has may be its.
	dark bool
}

// Leaves reports whether Consul's entries of a name stay as they are, since nothing is decided
// of it that would show them to be nobody's.
func (p Partly) Leaves(name string) bool {
	decided := slices.ContainsFunc(p.Config.Services, func(s Service) bool { return s.Name == name }) ||
		slices.ContainsFunc(p.Config.Routes, func(r Redirect) bool { return r.Route == name })
	return !decided && (p.dark || p.left[name])
}

// DecidePartly is [Decide] while records are missing. What stands follows the specs that can
// be read: who is not allowed any more is taken away. What a missing record could speak
// against is put off, and told as an error:
//
//	a spec     its group's services, and the routes to them, stay as they stand; no name is
//	           given that it may have taken
//	a mesh     no port is given to its group, so no new service of it has a route
//	a route    no address is given, which may be that one's; it goes by the one that callers have
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

// keep leaves what the missing records say as it stands: no part is written in their place, and
// the parts of others go on naming what they name of groups without a spec.
func (s *readable) keep(k Known) {
	for name := range s.missing.Specs {
		s.out.dark = s.out.dark || s.missing.ServiceMeshes[name]
	}
	for name, r := range k.Routes {
		if s.missing.Specs[r.Group] {
			s.out.left[name] = true
		}
	}
	for name := range s.Specs { // who is gone has no part any more
		before, mesh := k.ServiceMeshes[name], s.out.ServiceMeshes[name]
		mesh.Group = name
		// An address that nobody has yet is not known: such a route leads nowhere.
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

// letAsBefore gives pooler users the secrets that their group let the routes have, while its
// spec does not tell: an unreadable record locks nobody out who was let in.
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

// proxies of a group: those before its own services as they stand while its spec is missing,
// and the one that carries calls if it has any route.
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
			// Nobody else can have it: its entries in Consul, which have no address, go by its spec.
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
