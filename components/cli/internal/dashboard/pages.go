package dashboard

import (
	"net/url"
	"strings"
	"time"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/client"
	"cadre.dev/core/audit"
	"cadre.dev/core/policy"
)

// page is one address: the sources that it needs, and the fragments that their answers become.
type page struct {
	title string
	// nav is the address of the entry of the navigation that the page belongs to.
	nav     string
	sources []source
	// build is pure. It runs when the first source has a value; values of the others may be nil.
	build func(got []snapshot, now time.Time) []fragment
}

// fragment is a part of a page that is replaced when it changes. ID is its template and its element.
type fragment struct {
	ID   string
	Data any
}

type navEntry struct{ Path, Text, Key string }

// navigation has the pages in their order. A page has its entry here, its address in route, and its sources in
// sources.go.
var navigation = []navEntry{
	{"", "Overview", "1"},
	{"operations", "Operations", "2"},
	{"overlay", "Overlay", "3"},
	{"admissions", "Admissions", "4"},
	{"audit", "Audit", "5"},
}

// value is the value of a snapshot, or the zero value.
func value[T any](s snapshot) T {
	v, _ := s.value.(T)
	return v
}

// route finds the page of an address below the mount; false: there is none.
func (s *Server) route(path string, q url.Values) (page, bool) {
	f := filterOf(q)
	switch kind, name, named := strings.Cut(path, "/"); {
	case path == "":
		return s.overviewPage(f), true
	case kind == "groups" && named && name != "":
		return s.groupPage(name, f), true
	case kind == "instances" && named && name != "":
		return s.instancePage(name), true
	case path == "operations":
		return s.operationsPage(f, q.Get("all") == "1"), true
	case path == "overlay":
		return s.overlayPage(f, q.Get("slot")), true
	case path == "admissions":
		return s.admissionsPage(f), true
	case path == "audit":
		return s.auditPage(f), true
	}
	return page{}, false
}

func (s *Server) overviewPage(f filter) page {
	return page{title: "Overview", sources: []source{s.clusterSource(), s.cvmSource(), s.statusSource()}, build: func(got []snapshot, _ time.Time) []fragment {
		m := overviewOf(value[clusterAnswer](got[0]), value[cvmAnswer](got[1]), got[1].err)
		if report, judged := got[2].value.(overview.Report); judged {
			m.Judged, m.Problems = true, append(m.Problems, problemsOf(report)...)
		}
		var chosen []groupRow
		for _, g := range m.Groups {
			if f.matches(g.Name, g.Rollout.Text, g.Message, g.Target) {
				chosen = append(chosen, g)
			}
		}
		rows, below := paged(chosen, f, "./")
		return []fragment{
			{"overview.head", m},
			{"search", search{Path: "./", Filter: f, Label: "Search groups"}},
			{"overview.groups", struct {
				Rows  []groupRow
				Pager pager
				None  bool
			}{rows, below, len(m.Groups) == 0}},
			{"overview.coordinators", m},
		}
	}}
}

func (s *Server) groupPage(name string, f filter) page {
	sources := []source{watchGroup(s.Client, name), s.groupSource(name), s.nodeSource(name)}
	return page{title: name, sources: sources, build: func(got []snapshot, now time.Time) []fragment {
		v := value[client.View](got[0])
		m := groupOf(name, v, value[groupAnswer](got[1]), now)
		return []fragment{
			{"group.head", m},
			{"group.progress", m.Progress},
			{"search", search{Path: groupPath(name), Filter: f, States: slotChoices(f.State), Label: "Search slots"}},
			{"group.slots", slotsOf(name, v.Status.Instances, value[map[string]string](got[2]), f)},
			{"group.plan", m},
			{"group.conditions", m},
			{"group.history", m},
		}
	}}
}

func (s *Server) instancePage(slot string) page {
	return page{title: slot, sources: []source{s.instanceSource(slot)}, build: func(got []snapshot, now time.Time) []fragment {
		m := instanceOf(value[instanceAnswer](got[0]), now)
		return []fragment{{"instance.head", m}, {"instance.facts", m}, {"instance.records", m}}
	}}
}

func (s *Server) operationsPage(f filter, all bool) page {
	return page{title: "Operations", nav: "operations", sources: []source{s.operationSource(all)}, build: func(got []snapshot, now time.Time) []fragment {
		m := operationsOf(value[operationsAnswer](got[0]), all, f, now)
		return []fragment{
			{"operations.head", m},
			{"search", search{Path: "operations", Filter: f, Label: "Search operations"}},
			{"operations.list", m},
			{"operations.requests", m},
			{"operations.overrides", m},
		}
	}}
}

func (s *Server) overlayPage(f filter, slot string) page {
	path := "overlay"
	if slot != "" {
		path += "?slot=" + url.QueryEscape(slot)
	}
	return page{title: "Overlay", nav: "overlay", sources: []source{s.overlaySource(slot)}, build: func(got []snapshot, _ time.Time) []fragment {
		m := overlayOf(value[client.Overlay](got[0]), f, path)
		return []fragment{
			{"overlay.head", m},
			{"search", search{Path: "overlay", Filter: f, Label: "Search peers", Slot: slot, AsksSlot: true}},
			{"overlay.links", m},
		}
	}}
}

func (s *Server) admissionsPage(f filter) page {
	return page{title: "Admissions", nav: "admissions", sources: []source{s.admissionSource()}, build: func(got []snapshot, now time.Time) []fragment {
		m := admissionsOf(value[[]policy.AdmissionStatus](got[0]), f, now)
		return []fragment{
			{"admissions.head", m},
			{"search", search{Path: "admissions", Filter: f, States: admissionChoices(f.State), Label: "Search admissions"}},
			{"admissions.list", m},
		}
	}}
}

func (s *Server) auditPage(f filter) page {
	return page{title: "Audit", nav: "audit", sources: []source{s.auditSource()}, build: func(got []snapshot, _ time.Time) []fragment {
		m := auditOf(value[[]audit.Entry](got[0]), f)
		return []fragment{
			{"audit.head", m},
			{"search", search{Path: auditPath(""), Filter: f, Label: "Group, slot or key"}},
			{"audit.list", m},
		}
	}}
}
