package route

import (
	"cmp"
	"fmt"
	"slices"

	"cadre.dev/core/group"
)

// aliases takes away each alias that would give one caller two addresses under one name. The name of a
// route always wins, and then the alias that the caller has already (before): a new group never takes
// a name from an application that dials it.
func (d *decider) aliases(routes, before []group.RouteTo) {
	had := func(r group.RouteTo) bool {
		return slices.ContainsFunc(before, func(b group.RouteTo) bool { return b.Name == r.Name && b.Alias == r.Alias })
	}
	taken := map[string]string{}
	for _, r := range routes {
		taken[r.Name] = r.Name
	}
	for _, present := range []bool{true, false} {
		for i, r := range routes {
			if r.Alias == "" || had(r) != present {
				continue
			}
			if other, is := taken[r.Alias]; is {
				d.errs = append(d.errs, fmt.Errorf("group %s: route %s: a caller of it has the name %s already, for the route %s: use another alias", r.Group, r.Name, r.Alias, other))
				routes[i].Alias = ""
				continue
			}
			taken[r.Alias] = r.Name
		}
	}
}

// aliasConflicts returns the names that a caller of spec would dial for two routes. others are all groups.
func aliasConflicts(spec group.Spec, others map[string]group.Spec) []group.Problem {
	var out []group.Problem
	for i, r := range spec.Routes {
		for name, other := range others {
			if name == spec.Name {
				continue
			}
			for _, o := range other.Routes {
				if p := sharedName(spec, r, other, o); p != nil {
					out = append(out, *p)
				}
			}
		}
		for _, o := range spec.Routes[:i] {
			if p := sharedName(spec, r, spec, o); p != nil {
				out = append(out, *p)
			}
		}
	}
	slices.SortFunc(out, func(a, b group.Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(out)
}

// sharedName is the problem of route r of spec, if it and o of other have a name in common, and a caller.
// Two routes of one name are the conflict of Conflicts.
func sharedName(spec group.Spec, r group.Route, other group.Spec, o group.Route) *group.Problem {
	field, name := ".alias", r.Alias
	switch {
	case r.Alias != "" && (r.Alias == o.Name || r.Alias == o.Alias):
	case o.Alias != "" && o.Alias == r.Name:
		field, name = "", r.Name
	default:
		return nil
	}
	theirs := allowed(other, o)
	for _, caller := range allowed(spec, r) {
		if slices.Contains(theirs, caller) {
			return &group.Problem{Path: fmt.Sprintf("route[%q]%s", r.Name, field), Rule: "NAME_TAKEN", Message: fmt.Sprintf(
				"%q already leads group %q to the route %q of group %q: use another name, or take %s from allow of one of the backends", name, caller, o.Name, other.Name, caller)}
		}
	}
	return nil
}

// allowed are the groups that may call a route.
func allowed(spec group.Spec, r group.Route) []string {
	for _, b := range spec.Backends {
		if b.Name == r.Backend {
			return b.Allow
		}
	}
	return nil
}
