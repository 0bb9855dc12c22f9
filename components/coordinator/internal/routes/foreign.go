package routes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	consul "github.com/hashicorp/consul/api"
)

// ForeignError is an entry of a name that a spec declares which somebody else made in Consul.
// It is left alone: whoever made it goes by it.
type ForeignError struct{ Kind, Name, rename string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("consul's %s %q is not Cadre's and is left alone: delete it (consul config delete -kind %s -name %s), or %s", e.Kind, e.Name, e.Kind, e.Name, e.rename)
}

// keepOff takes out of want what cannot be written because of entries that are not ours, and
// says so of each; nil: all of it can be.
func keepOff(found, want entries) (rest entries, err error) {
	rest = entries{}
	var others []*ForeignError
	for k, put := range want {
		switch is := found[k]; {
		case is != nil && !ours(is):
			others = append(others, foreign(put))
		case leadsNowhere(put, found):
			// Consul refuses it, and the error that counts is that of the service's entry. What is
			// there of ours goes: a name leads to the role that it stands for or nowhere.
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

// leadsNowhere tells that put redirects to a subset that somebody else's resolver lacks.
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

// foreign says what may be renamed in the specs.
func foreign(put consul.ConfigEntry) *ForeignError {
	out := &ForeignError{put.GetKind(), put.GetName(), "give the backend another workload or parent"}
	if r, is := put.(*consul.ServiceResolverConfigEntry); is && r.Redirect != nil {
		out.rename = "rename the route"
	}
	return out
}
