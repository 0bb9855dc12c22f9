package routes_test

import (
	"slices"
	"strings"
	"testing"

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

// told are changes as words.
func told(found, want routes.Entries) (out []string, more bool) {
	list, more := routes.Changes(found, want)
	for _, c := range list {
		kind, name, remove := c.Told()
		verb := "put "
		if remove {
			verb = "remove "
		}
		out = append(out, verb+strings.TrimPrefix(kind, "service-")+" "+name)
	}
	return out, more
}

// TestChangesComeInAnOrderThatConsulTakes: nothing leads to what is not there.
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
		if got, more := told(routes.Wanted(c.found), routes.Wanted(c.want)); !slices.Equal(got, c.steps) || more != c.more {
			t.Errorf("%s: %q, more %v", name, got, more)
		}
	}
}
