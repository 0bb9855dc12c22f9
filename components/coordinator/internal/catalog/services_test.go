package catalog

import (
	"net/netip"
	"slices"
	"testing"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// part gives the member a backend of each owner, and two routes.
func part(m *Member) {
	m.ServiceMesh = group.ServiceMesh{
		Group: "pg",
		Proxies: []group.Proxy{
			{ID: "pg-api-sidecar-proxy", Service: "pg-api", Backend: "api", Owner: group.OwnerWorkload, Port: 20001, LocalPort: 8080, Loopback: true},
			{ID: "pg-pg-sidecar-proxy", Service: "pg-pg", Backend: "pg", Owner: group.OwnerPlatform, Port: 20000, LocalPort: 5432},
			{ID: "pg-sidecar-proxy", Service: "pg"},
		},
		Routes: []group.RouteTo{
			{Name: "queue", VIP: netip.MustParseAddr("127.10.0.2"), Port: 9090},
			{Name: "held", VIP: netip.MustParseAddr("127.10.0.1"), Port: 5432, Role: "leader", Hold: group.Duration(1e9)},
		},
	}
	m.Backends = map[string]reports.Backend{"api": {Health: rollout.Healthy, Tags: []string{"blue"}}}
	m.Live = map[string]bool{"pg-api-sidecar-proxy": true, "pg-pg-sidecar-proxy": true}
}

func with(change func(*Member)) Entry {
	return Want(member(func(m *Member) {
		part(m)
		if change != nil {
			change(m)
		}
	}))
}

func (e Entry) service(t *testing.T, id string) Service {
	t.Helper()
	at := slices.IndexFunc(e.Services, func(s Service) bool { return s.ID == id })
	if at < 0 {
		t.Fatalf("no %s among %+v", id, e.Services)
	}
	return e.Services[at]
}

func TestServices(t *testing.T) {
	e := with(nil)
	for _, want := range []Service{
		{ID: "pg-pg", Address: "127.50.1.2", Port: 5432, Tags: []string{"follower"}, Ready: true, Why: WhyHealthy},
		{ID: "pg-pg-sidecar-proxy", Address: "127.50.1.2", Port: 20000, Tags: []string{"follower"}, Ready: true, Why: WhyHealthy, Destination: "pg-pg", LocalAddress: "127.50.1.2", LocalPort: 5432},
		{ID: "pg-api-sidecar-proxy", Address: "127.50.1.2", Port: 20001, Tags: []string{"blue"}, Ready: true, Why: WhyHealthy, Destination: "pg-api", LocalAddress: "127.0.0.1", LocalPort: 8080},
		{ID: "pg-sidecar-proxy", Address: "127.0.0.1", Port: 20999, Destination: "pg", Upstreams: []Upstream{{"held", "127.11.0.1", 5432}, {"queue", "127.10.0.2", 9090}}},
	} {
		if got := e.service(t, want.ID); !got.equal(want) {
			t.Errorf("%s: %+v, want %+v", want.ID, got, want)
		}
	}
	if len(e.Services) != 5 {
		t.Errorf("services %+v", e.Services)
	}
}

// A backend has the state that its owner reports. The backend leaves discovery when its member
// drains, ends or has no live report.
func TestDiscoveryFollowsTheOwnerOfABackend(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*Member)
		platform, said string
		tags           []string
	}{
		"well":               {nil, WhyHealthy, WhyHealthy, []string{"blue"}},
		"checks fail":        {func(m *Member) { m.Workload = rollout.Unhealthy }, WhyUnhealthy, WhyHealthy, []string{"blue"}},
		"it says so":         {func(m *Member) { m.Backends["api"] = reports.Backend{Health: rollout.Unhealthy} }, WhyHealthy, WhyUnhealthy, nil},
		"its word is over":   {func(m *Member) { m.Backends["api"] = reports.Backend{Health: rollout.Unknown, Tags: []string{"a"}} }, WhyHealthy, WhyUnknown, []string{"a"}},
		"it said nothing":    {func(m *Member) { m.Backends = nil }, WhyHealthy, WhyUnknown, nil},
		"it says nothing so": {func(m *Member) { m.Backends["api"] = reports.Backend{} }, WhyHealthy, WhyUnknown, nil},
		"its proxy is down":  {func(m *Member) { delete(m.Live, "pg-pg-sidecar-proxy") }, WhyProxy, WhyHealthy, []string{"blue"}},
		"the other's is":     {func(m *Member) { delete(m.Live, "pg-api-sidecar-proxy") }, WhyHealthy, WhyProxy, []string{"blue"}},
		"both are unhealthy": {func(m *Member) { m.Workload, m.Live = rollout.Unhealthy, nil }, WhyUnhealthy, WhyProxy, []string{"blue"}},
		"draining":           {func(m *Member) { m.Draining = true }, WhyDraining, WhyDraining, []string{"blue"}},
		"silent":             {func(m *Member) { m.Leased = false }, WhySilent, WhySilent, nil},
		"ended":              {func(m *Member) { m.Ended = true }, WhyEnded, WhyEnded, nil},
		"no report":          {func(m *Member) { m.Report = nil }, WhyNoReport, WhyNoReport, nil},
	} {
		e := with(c.change)
		if own := e.Why == WhyHealthy; own != (c.platform == WhyHealthy || c.platform == WhyProxy) {
			t.Errorf("%s: the group's own service is %q", name, e.Why)
		}
		for id, why := range map[string]string{"pg-pg": c.platform, "pg-pg-sidecar-proxy": c.platform, "pg-api": c.said, "pg-api-sidecar-proxy": c.said} {
			if got := e.service(t, id); got.Why != why || got.Ready != (why == WhyHealthy) {
				t.Errorf("%s: %s is %+v, want %q", name, id, got, why)
			}
		}
		if got := e.service(t, "pg-api").Tags; !slices.Equal(got, c.tags) {
			t.Errorf("%s: tags %q", name, got)
		}
	}
}

// Only differences are written. WhySilent and WhyEnded overwrite a newer report.
func TestOnlyDifferencesAreWritten(t *testing.T) {
	found := func(e Entry) Found {
		return Found{Entry: e, NodeBoot: e.Boot, Exists: true, NodeIndex: 5, ServiceIndex: 6}
	}
	ids := func(list []Service) (out []string) {
		for _, s := range list {
			out = append(out, s.ID)
		}
		return out
	}
	leads := func(m *Member) { m.Report.Role, m.Sequence = rollout.RoleLeader, 8 }
	fewer := func(m *Member) { m.ServiceMesh.Proxies = m.ServiceMesh.Proxies[1:2] }
	for name, c := range map[string]struct {
		found              Found
		want               Entry
		step               Step
		own                bool
		put, drop, callers []string
	}{
		"all is well":        {found(with(nil)), with(nil), Keep, false, nil, nil, nil},
		"nothing is there":   {Found{}, with(nil), Update, true, []string{"pg-api", "pg-api-sidecar-proxy", "pg-pg", "pg-pg-sidecar-proxy"}, nil, []string{"pg-sidecar-proxy"}},
		"it leads":           {found(with(nil)), with(leads), Update, true, []string{"pg-pg", "pg-pg-sidecar-proxy"}, nil, nil},
		"routes went":        {found(with(nil)), with(fewer), Update, false, nil, []string{"pg-api", "pg-api-sidecar-proxy", "pg-sidecar-proxy"}, nil},
		"another route":      {found(with(nil)), with(func(m *Member) { m.ServiceMesh.Routes = m.ServiceMesh.Routes[:1] }), Update, false, nil, nil, []string{"pg-sidecar-proxy"}},
		"an older report":    {found(with(leads)), with(nil), Keep, false, nil, nil, nil},
		"another boot":       {found(with(func(m *Member) { m.Boot = "b0" })), with(fewer), Replace, true, []string{"pg-pg", "pg-pg-sidecar-proxy"}, nil, nil},
		"silent":             {found(with(leads)), with(func(m *Member) { m.Leased = false }), Update, true, []string{"pg-api", "pg-api-sidecar-proxy", "pg-pg", "pg-pg-sidecar-proxy"}, nil, nil},
		"the part is lost":   {found(with(nil)), with(func(m *Member) { fewer(m); m.ServiceMeshUnknown = true }), Keep, false, nil, nil, nil},
		"lost, and it leads": {found(with(nil)), with(func(m *Member) { leads(m); m.ServiceMeshUnknown = true }), Update, true, nil, nil, nil},
	} {
		got := Decide(c.found, c.want)
		if got.Step != c.step || got.Own != c.own && got.Step != Keep || !slices.Equal(ids(got.Put), c.put) || !slices.Equal(got.Drop, c.drop) || !slices.Equal(ids(got.Callers), c.callers) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
