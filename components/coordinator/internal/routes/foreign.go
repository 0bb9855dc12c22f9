package routes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	consul "github.com/hashicorp/consul/api"
)

// ForeignError is the error for an entry in Consul that another tool created under a name in a
// spec. Cadre leaves it alone, because its creator depends on it.
type ForeignError struct{ Kind, Name, rename string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("consul's %s %q is not Cadre's and is left alone: delete it (consul config delete -kind %s -name %s), or %s", e.Kind, e.Name, e.Kind, e.Name, e.rename)
}

// keepOff removes from want the changes that foreign entries block, and returns an error for each;
// nil: none is blocked.
func keepOff(found, want entries) (rest entries, err error) {
	rest = entries{}
	var others []*ForeignError
	for k, put := range want {
		switch is := found[k]; {
		case is != nil && !ours(is):
			others = append(others, foreign(put))
		case leadsNowhere(put, found):
			// Consul would reject this entry, and the service's own entry has the error to report.
			// An existing entry of ours is removed: a name must lead to its own role or nowhere.
		default:
			rest[k] = put
		}
	}
	slices.SortFunc(others, func(a, b *ForeignError) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	for _, one := range others {
		err = errors.Join(err, one)
	}
	return rest, err
}

// leadsNowhere reports whether put redirects to a subset that a foreign resolver lacks.
func leadsNowhere(put consul.ConfigEntry, found entries) bool {
	route, is := put.(*consul.ServiceResolverConfigEntry)
	if !is || route.Redirect == nil {
		return false
	}
	to, is := found[key{consul.ServiceResolver, route.Redirect.Service}].(*consul.ServiceResolverConfigEntry)
	if !is || ours(to) {
		return false
	}
	_, has := to.Subsets[route.Redirect.ServiceSubset]
	return !has
}

// foreign returns the error with the name to change in the specs.
func foreign(put consul.ConfigEntry) *ForeignError {
	out := &ForeignError{put.GetKind(), put.GetName(), "give the backend another workload or parent"}
	if r, is := put.(*consul.ServiceResolverConfigEntry); is && r.Redirect != nil {
		out.rename = "rename the route"
	}
	return out
}
