package route

import (
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/group"
)

// Conflicts returns the names of spec that other groups of the cluster already use, as problems of
// spec. One name has one meaning for dialling members and in Consul's catalog: a group, a backend's
// service or a route. A route may have the name of its own group. others are the specs in force;
// Conflicts ignores the group's own.
func Conflicts(spec group.Spec, others map[string]group.Spec) []group.Problem {
	taken := map[string]string{group.Coordinators: "the coordinators"}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if name == spec.Name {
			continue
		}
		other := others[name]
		taken[name] = fmt.Sprintf("the group %q", name)
		for _, b := range other.Backends {
			taken[other.Service(b)] = fmt.Sprintf("backend %q of group %q", b.Name, name)
		}
		for _, r := range other.Routes {
			taken[r.Name] = fmt.Sprintf("a route of group %q", name)
		}
	}
	var out []group.Problem
	add := func(path, name string) {
		if whose, is := taken[name]; is {
			out = append(out, group.Problem{Path: path, Rule: "NAME_TAKEN", Message: fmt.Sprintf("%q is %s already: names are unique in the cluster, use another", name, whose)})
		}
	}
	add("name", spec.Name)
	for _, b := range spec.Backends {
		add(fmt.Sprintf("backend[%q]", b.Name), spec.Service(b))
	}
	for _, r := range spec.Routes {
		add(fmt.Sprintf("route[%q]", r.Name), r.Name)
	}
	return append(out, aliasConflicts(spec, others)...)
}
