package route

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/group"
)

// holders maps each name to its group. Two accepted specs can claim one name, when they were judged
// at the same moment. A group has its own name; then the group with a record of the name wins, then
// the group that was accepted first.
func holders(k Known) map[string]string {
	out := map[string]string{group.Coordinators: group.Coordinators}
	take := func(name, by string) {
		if _, taken := out[name]; !taken {
			out[name] = by
		}
	}
	groups := slices.Sorted(maps.Keys(k.Specs))
	for _, name := range groups {
		take(name, name)
	}
	for _, name := range groups {
		spec := k.Specs[name]
		for _, claim := range claims(spec) {
			if proxied(k.ServiceMeshes[name], claim) || k.Routes[claim].Group == name && declares(spec, claim) {
				take(claim, name)
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b string) int { return cmp.Compare(k.Accepted[a], k.Accepted[b]) })
	for _, name := range groups {
		for _, claim := range claims(k.Specs[name]) {
			take(claim, name)
		}
	}
	return out
}

// claims returns the names that a spec takes in the service layer, in addition to its own.
func claims(spec group.Spec) (out []string) {
	for _, b := range spec.Backends {
		if routed(spec, b) {
			out = append(out, spec.Service(b))
		}
	}
	for _, r := range spec.Routes {
		out = append(out, r.Name)
	}
	return out
}

func routed(spec group.Spec, b group.Backend) bool {
	return slices.ContainsFunc(spec.Routes, func(r group.Route) bool { return r.Backend == b.Name })
}

func declares(spec group.Spec, name string) bool {
	return slices.ContainsFunc(spec.Routes, func(r group.Route) bool { return r.Name == name })
}

func proxied(mesh group.ServiceMesh, service string) bool {
	return slices.ContainsFunc(mesh.Proxies, func(p group.Proxy) bool { return !p.Calls() && p.Service == service })
}

// own is spec without the routes whose names, or whose backends' names, others have.
func (d *decider) own(spec group.Spec) group.Spec {
	lost := func(name string) bool { return d.has[name] != spec.Name }
	services := map[string]string{}
	for _, b := range spec.Backends {
		services[b.Name] = spec.Service(b)
	}
	var left []group.Route
	for _, r := range spec.Routes {
		service, known := services[r.Backend]
		switch {
		case lost(r.Name):
			d.errs = append(d.errs, fmt.Errorf("group %s: route %s: the name is that of something of group %s: use another", spec.Name, r.Name, d.has[r.Name]))
		case known && lost(service):
			d.errs = append(d.errs, fmt.Errorf("group %s: route %s: its backend's service %s is something of group %s: give it another workload or parent", spec.Name, r.Name, service, d.has[service]))
		default:
			left = append(left, r)
		}
	}
	spec.Routes = left
	return spec
}
