package routes_test

import (
	"slices"
	"strings"
	"testing"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/routes"
	"cadre.dev/core/route"
)

func config(role string, callers ...string) route.Config {
	subsets := map[string]string{"any": ""}
	redirect := route.Redirect{Route: "pg-master", Service: "pg-pg", Subset: "any"}
	if role != "" {
		subsets[role], redirect.Subset = `"`+role+`" in Service.Tags`, role
	}
	return route.Config{Services: []route.Service{{Name: "pg-pg", Callers: callers, Subsets: subsets}}, Routes: []route.Redirect{redirect}}
}

// changesText formats changes as text.
func changesText(found, want routes.Entries, stay ...string) (out []string, more bool) {
	list, more := routes.Changes(found, want, func(name string) bool { return slices.Contains(stay, name) })
	for _, c := range list {
		kind, name, remove := c.Describe()
		verb := "put "
		if remove {
			verb = "remove "
		}
		out = append(out, verb+strings.TrimPrefix(kind, "service-")+" "+name)
	}
	return out, more
}

// TestChangesComeInAnOrderThatConsulTakes: no entry leads to a missing one.
func TestChangesComeInAnOrderThatConsulTakes(t *testing.T) {
	for name, c := range map[string]struct {
		found, want route.Config
		steps       []string
		more        bool
	}{
		"nothing":       {config("leader", "web"), config("leader", "web"), nil, false},
		"new":           {route.Config{}, config("leader", "web"), []string{"put intentions pg-pg", "put resolver pg-pg", "put resolver pg-master"}, false},
		"gone":          {config("leader", "web"), route.Config{}, []string{"remove intentions pg-pg", "remove resolver pg-master", "remove resolver pg-pg"}, false},
		"no caller":     {config("leader", "web"), config("leader"), []string{"remove intentions pg-pg"}, false},
		"other role":    {config("leader", "web"), config("follower", "web"), []string{"put resolver pg-pg", "put resolver pg-master"}, true},
		"no role":       {config("leader", "web"), config("", "web"), []string{"put resolver pg-master"}, true},
		"other callers": {config("leader", "web", "app"), config("leader", "web"), []string{"put intentions pg-pg"}, false},
	} {
		if got, more := changesText(routes.Wanted(c.found), routes.Wanted(c.want)); !slices.Equal(got, c.steps) || more != c.more {
			t.Errorf("%s: %q, more %v", name, got, more)
		}
	}
}

// TestUndecidedNamesStay: undecided names stay, with the subsets that they lead to.
func TestUndecidedNamesStay(t *testing.T) {
	service := config("follower", "web")
	service.Routes = nil
	for name, c := range map[string]struct {
		found, want route.Config
		stay, steps []string
		more        bool
	}{
		"all":                   {config("leader", "web"), route.Config{}, []string{"pg-pg", "pg-master"}, nil, false},
		"the service":           {config("leader", "web"), route.Config{}, []string{"pg-pg"}, []string{"remove resolver pg-master"}, false},
		"a route to a service":  {config("leader", "web"), service, []string{"pg-master"}, []string{"put resolver pg-pg"}, true},
		"callers that are gone": {config("leader", "web", "app"), config("leader", "web"), []string{"pg-master"}, []string{"put intentions pg-pg"}, false},
	} {
		if got, more := changesText(routes.Wanted(c.found), routes.Wanted(c.want), c.stay...); !slices.Equal(got, c.steps) || more != c.more {
			t.Errorf("%s: %q, more %v", name, got, more)
		}
	}
	// Applied like this, no further change follows.
	wide := config("follower", "web")
	wide.Services[0].Subsets["leader"] = `"leader" in Service.Tags`
	wide.Routes[0].Subset = "leader"
	if got, more := changesText(routes.Wanted(wide), routes.Wanted(service), "pg-master"); got != nil || more {
		t.Errorf("at rest: %q, more %v", got, more)
	}
}

// TestOnlyOursAreRemoved: foreign entries stay.
func TestOnlyOursAreRemoved(t *testing.T) {
	found := routes.Entries{}
	for k, one := range routes.Wanted(config("leader", "web")) {
		found[k] = one
		if e, is := one.(*consul.ServiceResolverConfigEntry); is {
			e.Meta = nil
		} else if e, is := one.(*consul.ServiceIntentionsConfigEntry); is {
			e.Meta = map[string]string{"managed-by": "somebody"}
		}
	}
	if got, _ := changesText(found, routes.Entries{}); len(got) != 0 {
		t.Errorf("others' are removed: %q", got)
	}
}
