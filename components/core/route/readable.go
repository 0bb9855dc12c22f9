package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/group"
)

// ErrDeferred: the request may belong to another group, whose record cannot be read.
var ErrDeferred = errors.New("put off until all records of routes can be read")

// readable holds the decisions of the readable records.
type readable struct {
	Known

	missing Missing
	out     Partly
	errs    []error
}

// deferRoutes returns spec without the routes that a missing record could contradict.
func (s *readable) deferRoutes(spec group.Spec) group.Spec {
	var stay []group.Route
	for _, r := range spec.Routes {
		at := slices.IndexFunc(spec.Backends, func(b group.Backend) bool { return b.Name == r.Backend })
		if at < 0 {
			continue // Validate says so
		}
		service := spec.Service(spec.Backends[at])
		if !s.mayHave(spec.Name, r.Name, service) {
			s.errs = append(s.errs, fmt.Errorf("group %s: route %s: %w", spec.Name, r.Name, ErrDeferred))
			s.out.left[r.Name], s.out.left[service] = true, true
			continue
		}
		stay = append(stay, r)
	}
	spec.Routes = stay
	return spec
}

// mayHave reports whether a route to a service can be decided: both belong to the group by record,
// or no missing record can have given their names, addresses and ports to another group.
func (s *readable) mayHave(name, route, service string) bool {
	record, has := s.Routes[route]
	switch {
	case has && record.Group == name:
		// The route has its address, or keeps the present one where the record has none.
	case has || s.missing.Routes[route]:
		if len(s.missing.Specs) > 0 || s.missing.Routes[route] {
			return false // the former group may still have it
		}
	case len(s.missing.Routes)+len(s.missing.Specs) > 0 || s.missing.ServiceMeshes[name]:
		return false
	}
	if s.missing.ServiceMeshes[name] {
		return !s.others(name, service)
	}
	return len(s.missing.Specs) == 0 || proxied(s.ServiceMeshes[name], service) || s.led(name, service)
}

// others reports whether members of another group have a proxy for the service, or may have.
func (s *readable) others(name, service string) bool {
	for other, mesh := range s.ServiceMeshes {
		if other != name && proxied(mesh, service) {
			return true
		}
	}
	for other := range s.missing.ServiceMeshes {
		if other != name && slices.Contains(claims(s.Specs[other]), service) {
			return true
		}
	}
	return false
}

// led reports whether a route of any group leads to the service, as one of the named group.
func (s *readable) led(name, service string) bool {
	for _, mesh := range s.ServiceMeshes {
		if slices.ContainsFunc(mesh.Routes, func(r group.RouteTo) bool { return r.Group == name && r.Service == service }) {
			return true
		}
	}
	return false
}

// holding builds a part with a proxy for each service of the group's spec, in place of an
// unreadable part. The group keeps their names before other claims. The ports mean nothing, and are
// never written.
func (s *readable) holding(name string) (out group.ServiceMesh) {
	spec := s.Specs[name]
	ports := portBook{}
	services := map[string]string{}
	for _, b := range spec.Backends {
		if routed(spec, b) {
			services[spec.Service(b)] = b.Name
		}
	}
	for _, service := range slices.Sorted(maps.Keys(services)) {
		if port, err := ports.give(service); err == nil {
			out.Proxies = append(out.Proxies, group.Proxy{ID: group.ProxyOf(service), Service: service, Backend: services[service], Port: port})
		}
	}
	out.Group = name
	return out
}
