package peering

import (
	"reflect"
	"slices"
	"testing"

	"cadre.dev/core/group"
)

func TestReach(t *testing.T) {
	specs := map[string]group.Spec{
		"pg": {Name: "pg", Workload: group.Workload{Kind: "patroni"},
			Backends: []group.Backend{{Name: "pooler", Port: 6432, Allow: []string{"web"}}}},
		"web": {Name: "web", Backends: []group.Backend{{Name: "stats", Protocol: "udp", Port: 9000}}},
	}
	pg0, pg1 := Member{Group: "pg", Slot: "pg-0"}, Member{Group: "pg", Slot: "pg-1"}
	web0, web1 := Member{Group: "web", Slot: "web-0"}, Member{Group: "web", Slot: "web-1"}
	c0, c1 := Member{Group: "coordinator", Slot: "coordinator-0", Coordinator: true}, Member{Group: "coordinator", Slot: "coordinator-1", Coordinator: true}
	consul := []Port{{Protocol: "tcp", Number: 8300}, {Protocol: "tcp", Number: 8301}, {Protocol: "udp", Number: 8301}}
	for name, tc := range map[string]struct {
		client, server Member
		want           []Port
	}{
		"members of a workload cluster": {pg0, pg1, []Port{{Protocol: "tcp", Number: 5432}, {Protocol: "tcp", Number: 6432}, {Protocol: "tcp", Number: 8008, Loopback: true}}},
		"an allowed group":              {web0, pg1, []Port{{Protocol: "tcp", Number: 6432}}},
		"a group that is not allowed":   {pg0, web1, nil},
		"own udp backend":               {web0, web1, []Port{{Protocol: "udp", Number: 9000}}},
		"slot to coordinator":           {pg0, c0, nil},
		"coordinator to slot":           {c0, pg0, nil},
		"among coordinators":            {c0, c1, consul},
		"slot of a group without spec":  {pg0, Member{Group: "gone", Slot: "gone-0"}, nil},
	} {
		if got := Reach(tc.client, tc.server, Rules{Specs: specs}); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestBothSidesOfAPairAgree(t *testing.T) {
	specs := map[string]group.Spec{"pg": {Name: "pg", Workload: group.Workload{Kind: "patroni"}}, "web": {Name: "web"}}
	members := []Member{
		{Group: "pg", Slot: "pg-0"}, {Group: "pg", Slot: "pg-1"}, {Group: "web", Slot: "web-0"},
		{Group: "coordinator", Slot: "coordinator-0", Coordinator: true},
	}
	seen := map[[2]string]Peer{}
	for _, self := range members {
		for _, p := range Map(self, members, Rules{Specs: specs}) {
			seen[[2]string{self.Slot, p.Slot}] = p
		}
	}
	if len(seen) != 8 { // pg and web allow each other nothing
		t.Fatalf("pairs: %d, want 8", len(seen))
	}
	for pair, p := range seen {
		back := seen[[2]string{pair[1], pair[0]}]
		if !reflect.DeepEqual(p.Offers, offered(slices.Clone(back.Accepts))) || !reflect.DeepEqual(offered(slices.Clone(p.Accepts)), back.Offers) {
			t.Errorf("%v: halves differ", pair)
		}
	}
}

// OVL-20: two services may connect only if a spec names them. A group that is not named, or has no
// spec, reaches nothing.
func TestOVL20_ServicesAreDeniedByDefault(t *testing.T) {
	groups := []string{"db", "cache", "web", "batch"}
	port := map[string]int{"db": 5432, "cache": 6379, "web": 8080, "batch": 9090}
	allowed := map[[2]string]bool{{"web", "db"}: true, {"web", "cache"}: true}
	specs := map[string]group.Spec{}
	for _, server := range groups {
		b := group.Backend{Name: server, Port: port[server]}
		for _, client := range groups {
			if allowed[[2]string{client, server}] {
				b.Allow = append(b.Allow, client)
			}
		}
		specs[server] = group.Spec{Name: server, Backends: []group.Backend{b}}
	}
	for _, client := range append(groups, "stranger") {
		for _, server := range groups {
			got := Reach(Member{Group: client, Slot: client + "-0"}, Member{Group: server, Slot: server + "-1"}, Rules{Specs: specs})
			want := client == server || allowed[[2]string{client, server}]
			if reaches := slices.Contains(got, Port{Protocol: "tcp", Number: uint16(port[server])}); reaches != want {
				t.Errorf("%s reaches %s: %t, want %t", client, server, reaches, want)
			}
			for _, p := range got {
				if p.Number != uint16(port[server]) {
					t.Errorf("%s reaches port %d of %s", client, p.Number, server)
				}
			}
		}
	}
}

// TestABackendIsDialledWhereItIsDeclared: only the server uses the listen address. The client's
// half never has it, so both halves name the same ports.
func TestABackendIsDialledWhereItIsDeclared(t *testing.T) {
	specs := map[string]group.Spec{"pg": {Name: "pg",
		Workload: group.Workload{Kind: "patroni", Settings: map[string]string{"port": "8010"}},
		Backends: []group.Backend{
			{Name: "vip", Port: 6000, Allow: []string{"web"}}, {Name: "loopback", Port: 6001, Address: "127.0.0.1", Allow: []string{"web"}},
			{Name: "rest", Port: 8010, Allow: []string{"web"}},
		}}, "web": {Name: "web"}}
	pg, web := Member{Group: "pg", Slot: "pg-0"}, Member{Group: "web", Slot: "web-0"}
	want := []Port{{Protocol: "tcp", Number: 6000}, {Protocol: "tcp", Number: 6001, Loopback: true}, {Protocol: "tcp", Number: 8010, Loopback: true}}
	got := Map(pg, []Member{web}, Rules{Specs: specs})[0].Accepts
	if !slices.Equal(got, want) {
		t.Errorf("the server accepts %v, want %v", got, want)
	}
	for _, p := range Map(web, []Member{pg}, Rules{Specs: specs})[0].Offers {
		if p.Loopback {
			t.Errorf("the client received the listen address of %d", p.Number)
		}
	}
	members := Map(pg, []Member{{Group: "pg", Slot: "pg-1"}}, Rules{Specs: specs})[0]
	if n := len(slices.DeleteFunc(slices.Clone(members.Accepts), func(p Port) bool { return p.Number != 8010 })); n != 1 {
		t.Errorf("members accept the driver's port %d times: %v", n, members.Accepts)
	}
}

func TestAMemberSeesItsPermittedPeers(t *testing.T) {
	specs := map[string]group.Spec{
		"db":    {Name: "db", Backends: []group.Backend{{Name: "sql", Port: 5432, Allow: []string{"web", "batch"}}}},
		"web":   {Name: "web", Backends: []group.Backend{{Name: "http", Port: 80}}},
		"batch": {Name: "batch"}, "alone": {Name: "alone"},
	}
	for pair, want := range map[[2]string]bool{
		{"db", "db"}: true, {"db", "web"}: true, {"batch", "db"}: true, {"web", "batch"}: false, {"alone", "db"}: false, {"alone", "alone"}: true, {"gone", "web"}: false,
	} {
		if a, b := Sees(pair[0], pair[1], Rules{Specs: specs}), Sees(pair[1], pair[0], Rules{Specs: specs}); a != want || b != want {
			t.Errorf("%v: %t and %t, want %t", pair, a, b, want)
		}
	}
}

// TestAProxyIsForItsCallers: a group in the record reaches the proxy, on the VIP. A group that the
// spec allows the port itself reaches that port as before. Others reach nothing.
func TestAProxyIsForItsCallers(t *testing.T) {
	rules := Rules{
		Specs: map[string]group.Spec{
			"db":  {Name: "db", Backends: []group.Backend{{Name: "sql", Port: 5432, Allow: []string{"web", "batch"}}}},
			"web": {Name: "web"}, "batch": {Name: "batch"},
			"alone": {Name: "alone", Backends: []group.Backend{{Name: "x", Protocol: "udp", Port: 1, Allow: []string{"alone"}}}},
		},
		ServiceMeshes: map[string]group.ServiceMesh{
			"db":    {Group: "db", Proxies: []group.Proxy{{ID: "db-sql-sidecar-proxy", Service: "db-sql", Backend: "sql", Port: 20000, LocalPort: 5432, Loopback: true, Callers: []string{"web"}}}},
			"web":   {Group: "web", Proxies: []group.Proxy{{ID: "web-sidecar-proxy", Service: "web"}}},
			"alone": {Group: "alone", Proxies: []group.Proxy{{ID: "alone-x-sidecar-proxy", Service: "alone-x", Backend: "x", Port: 20000, LocalPort: 1, Callers: []string{"alone"}}}},
			"gone":  {Group: "gone", Proxies: []group.Proxy{{ID: "gone-x-sidecar-proxy", Service: "gone-x", Backend: "x", Port: 20000, LocalPort: 1, Callers: []string{"web"}}}},
		},
	}
	sql, proxy, own := Port{Protocol: "tcp", Number: 5432}, Port{Protocol: "tcp", Number: 20000}, Port{Protocol: "udp", Number: 1}
	for pair, want := range map[[2]string][]Port{
		{"web", "db"}: {sql, proxy}, {"batch", "db"}: {sql}, {"db", "db"}: {sql}, {"alone", "db"}: nil,
		{"db", "web"}: nil, {"web", "web"}: nil, {"alone", "alone"}: {own, proxy}, {"web", "gone"}: nil,
	} {
		client, server := Member{Group: pair[0], Slot: pair[0] + "-0"}, Member{Group: pair[1], Slot: pair[1] + "-1"}
		if got := Reach(client, server, rules); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v, want %v", pair, got, want)
		}
	}
	if !Sees("web", "db", rules) || Sees("web", "gone", rules) {
		t.Error("who may call a route does not see whom it leads to, or sees a group that is gone")
	}
}

// TestAProxyIsForCallersInTheSpecInForce: the part in the service layer names web and batch.
// The spec in force decides, even while the part cannot be rewritten.
func TestAProxyIsForCallersInTheSpecInForce(t *testing.T) {
	meshes := map[string]group.ServiceMesh{"db": {Group: "db", Proxies: []group.Proxy{
		{ID: "db-sidecar-proxy", Service: "db", Callers: []string{"web"}},
		{ID: "db-sql-sidecar-proxy", Service: "db-sql", Backend: "sql", Port: 20000, LocalPort: 5432, Callers: []string{"web", "batch"}},
	}}}
	// The backend has another protocol than the proxy, so that only the proxy's port matters.
	sql := func(allow ...string) []group.Backend {
		return []group.Backend{{Name: "sql", Protocol: "udp", Port: 5432, Allow: allow}}
	}
	for name, c := range map[string]struct {
		backends []group.Backend
		want     []string
	}{
		"as the part says":           {sql("web", "batch"), []string{"web", "batch"}},
		"one is taken away":          {sql("batch"), []string{"batch"}},
		"all are taken away":         {sql(), nil},
		"the part is older":          {sql("web", "batch", "new"), []string{"web", "batch"}},
		"the backend is gone":        {nil, nil},
		"another backend allows web": {append(sql("batch"), group.Backend{Name: "other", Protocol: "udp", Port: 1, Allow: []string{"web"}}), []string{"batch"}},
	} {
		rules := Rules{Specs: map[string]group.Spec{"db": {Name: "db", Backends: c.backends}}, ServiceMeshes: meshes}
		for _, client := range []string{"web", "batch", "new"} {
			reach := Reach(Member{Group: client, Slot: client + "-0"}, Member{Group: "db", Slot: "db-0"}, rules)
			if got := slices.Contains(reach, Port{Protocol: "tcp", Number: 20000}); got != slices.Contains(c.want, client) {
				t.Errorf("%s: %s reaches the proxy: %t", name, client, got)
			}
		}
		if sees := Sees("web", "db", rules); sees != slices.ContainsFunc(c.backends, func(b group.Backend) bool { return slices.Contains(b.Allow, "web") }) {
			t.Errorf("%s: web sees db: %t", name, sees)
		}
	}
}
