package group

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// routed is a valid spec whose database has two routes, in addition to a backend that its workload
// registers itself.
func routed() Spec {
	s := goodSpec()
	s.Backends = append(s.Backends, Backend{Name: "api", Port: 8080, Address: LoopbackAddress, Allow: []string{"web", "postgres"}, Registration: Registration{Owner: OwnerWorkload}})
	s.Routes = []Route{
		{Name: "postgres-master", Backend: "pg", Role: "leader", Hold: Duration(5 * time.Second), Pooler: PoolerPgBouncer, PoolerUsers: map[string]string{"app": "app-password"}},
		{Name: "postgres", Backend: "api", Role: "blue"},
	}
	s.ConsulPermissions = ConsulPermissions{KeyPrefixes: []string{"service/postgres/", "service/postgres/config"}, SessionWrite: true}
	s.Normalize()
	return s
}

func TestAGoodServiceLayer(t *testing.T) {
	s := routed()
	if got := problems(t, s); got != nil {
		t.Errorf("problems %v", got)
	}
	if b := s.Backends[1]; b.Workload != "api" || b.Registration.TTL.D() != DefaultRegistrationTTL || s.Service(b) != "postgres-api" || s.Backends[0].Registration.Owner != OwnerPlatform {
		t.Errorf("defaults: %+v", s.Backends)
	}
	s.Backends[1].Registration.Parent = "ledger"
	if got := problems(t, s); got != nil || s.Service(s.Backends[1]) != "ledger" {
		t.Errorf("with a parent: %v", got)
	}
}

func TestTheServiceLayerIsJudged(t *testing.T) {
	route := func(change func(*Route)) func(*Spec) {
		return func(s *Spec) { change(&s.Routes[0]) }
	}
	reg := func(change func(*Registration)) func(*Spec) {
		return func(s *Spec) { change(&s.Backends[1].Registration) }
	}
	type c struct {
		path string
		edit func(*Spec)
	}
	for name, c := range map[string]c{
		"no backend":             {`route["postgres-master"].backend`, route(func(r *Route) { r.Backend = "" })},
		"an unknown backend":     {`route["postgres-master"].backend`, route(func(r *Route) { r.Backend = "rest" })},
		"a udp backend":          {`route["postgres-master"].backend`, func(s *Spec) { s.Backends[0].Protocol = "udp" }},
		"a name twice":           {`route["postgres-master"]`, func(s *Spec) { s.Routes[1].Name = "postgres-master" }},
		"a bad name":             {`route["Master"]`, route(func(r *Route) { r.Name = "Master" })},
		"localhost":              {`route["localhost"]`, route(func(r *Route) { r.Name = "localhost" })},
		"consul":                 {`route["consul"]`, route(func(r *Route) { r.Name = "consul" })},
		"a proxy's name":         {`route["x-sidecar-proxy"]`, route(func(r *Route) { r.Name = "x-sidecar-proxy" })},
		"a slot's name":          {`route["web-0"]`, route(func(r *Route) { r.Name = "web-0" })},
		"a service's name":       {`route["postgres-api"]`, route(func(r *Route) { r.Name = "postgres-api" })},
		"no such role":           {`route["postgres-master"].role`, route(func(r *Route) { r.Role = "master" })},
		"the role of all":        {`route["postgres"].role`, func(s *Spec) { s.Routes[1].Role = AnyRole }},
		"a tag that is no name":  {`route["postgres"].role`, func(s *Spec) { s.Routes[1].Role = `x" or "y` }},
		"roles without a driver": {`route["postgres-master"].role`, func(s *Spec) { s.Workload = Workload{Kind: WorkloadNone} }},
		"a short hold":           {`route["postgres-master"].hold`, route(func(r *Route) { r.Hold = Duration(99 * time.Millisecond) })},
		"a long hold":            {`route["postgres-master"].hold`, route(func(r *Route) { r.Hold = Duration(31 * time.Second) })},
		"a hold without a role":  {`route["postgres-master"].hold`, route(func(r *Route) { r.Role = "" })},
		"another pooler":         {`route["postgres-master"].pooler`, route(func(r *Route) { r.Pooler = "odyssey" })},
		"users without a pooler": {`route["postgres-master"].pooler_users`, route(func(r *Route) { r.Pooler = "" })},
		"a pooler without users": {`route["postgres-master"].pooler_users`, route(func(r *Route) { r.PoolerUsers = nil })},
		"a user that is none":    {`route["postgres-master"].pooler_users["a\"b"]`, route(func(r *Route) { r.PoolerUsers = map[string]string{`a"b`: "s"} })},
		"the console's user":     {`route["postgres-master"].pooler_users["pgbouncer"]`, route(func(r *Route) { r.PoolerUsers = map[string]string{"pgbouncer": ""} })},
		"many users": {`route["postgres-master"].pooler_users`, route(func(r *Route) {
			for n := range MaxPoolerUsers {
				r.PoolerUsers[fmt.Sprintf("app%d", n)] = ""
			}
		})},
		"a secret that is none": {`route["postgres-master"].pooler_users["a"]`, route(func(r *Route) { r.PoolerUsers = map[string]string{"a": "../s"} })},
		"another owner":         {`backend["pg"].registration.owner`, func(s *Spec) { s.Backends[0].Registration.Owner = "nobody" }},
		"a bad parent":          {`backend["api"].registration.parent`, reg(func(r *Registration) { r.Parent = "a_b" })},
		"consul as parent":      {`backend["api"].registration.parent`, reg(func(r *Registration) { r.Parent = "consul" })},
		"the group as parent":   {`backend["pg"].registration.parent`, func(s *Spec) { s.Backends[0].Registration.Parent, s.Routes = "postgres", s.Routes[:1] }},
		"a short time":          {`backend["api"].registration.ttl`, reg(func(r *Registration) { r.TTL = Duration(time.Second) })},
		"a long time":           {`backend["api"].registration.ttl`, reg(func(r *Registration) { r.TTL = minutes(61) })},
		"a time of the checks'": {`backend["pg"].registration.ttl`, func(s *Spec) { s.Backends[0].Registration.TTL = minutes(1) }},
		"a bad workload":        {`backend["api"].workload`, func(s *Spec) { s.Backends[1].Workload = "-" }},
		"one service twice":     {`backend["api"]`, func(s *Spec) { s.Backends[1].Workload = "pg" }},
		"a proxy as service":    {`route["postgres-master"].backend`, func(s *Spec) { s.Backends[0].Registration.Parent = "x-sidecar-proxy" }},
		"Cadre's port":          {`backend["api"].port`, func(s *Spec) { s.Backends[1].Port = FirstProxyPort }},
		"Cadre's last port":     {`backend["api"].port`, func(s *Spec) { s.Backends[1].Port = CallerPort }},
		"keys of another group": {`consul_permissions.key_prefixes[1]`, func(s *Spec) { s.ConsulPermissions.KeyPrefixes[1] = "service/postgres2/" }},
		"a way out of its keys": {`consul_permissions.key_prefixes[1]`, func(s *Spec) { s.ConsulPermissions.KeyPrefixes[1] = "service/postgres/../web/" }},
		"all keys":              {`consul_permissions.key_prefixes[1]`, func(s *Spec) { s.ConsulPermissions.KeyPrefixes[1] = "" }},
		"a rule in a prefix":    {`consul_permissions.key_prefixes[1]`, func(s *Spec) { s.ConsulPermissions.KeyPrefixes[1] = `service/postgres/" { policy = "write" }` }},
		"many prefixes": {`consul_permissions.key_prefixes`, func(s *Spec) {
			s.ConsulPermissions.KeyPrefixes = nil
			for n := range maxKeyPrefixes + 1 {
				s.ConsulPermissions.KeyPrefixes = append(s.ConsulPermissions.KeyPrefixes, fmt.Sprintf("service/postgres/%d/", n))
			}
		}},
		"many routes": {"route", func(s *Spec) {
			for n := range maxRoutes {
				s.Routes = append(s.Routes, Route{Name: fmt.Sprintf("r%dx", n), Backend: "pg"})
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := routed()
			c.edit(&s)
			wantProblem(t, s, c.path, "")
		})
	}
	s := routed()
	s.Name = "x-sidecar-proxy" // its service would be the proxy of x
	s.Backends[0].Registration.Parent, s.ConsulPermissions = "x", ConsulPermissions{}
	wantProblem(t, s, `route["postgres-master"].backend`, "")
}

// TestAllProblemsOfTheServiceLayerAtOnce: the spec's other problems are in the same error.
func TestAllProblemsOfTheServiceLayerAtOnce(t *testing.T) {
	s := routed()
	s.Replicas = 0
	s.Routes[0].Role, s.Routes[0].Hold, s.Routes[0].Pooler = "master", minutes(1), "x"
	s.Routes[1].Backend = "gone"
	s.Backends[1].Registration.Owner = "me"
	s.ConsulPermissions.KeyPrefixes[0] = "cadre/v1/"
	got := strings.Join(problems(t, s), "\n")
	for _, path := range []string{
		"replicas: ", `route["postgres-master"].role: `, `route["postgres-master"].hold: `, `route["postgres-master"].pooler: `,
		`route["postgres"].backend: `, `backend["api"].registration.owner: `, "consul_permissions.key_prefixes[0]: ",
	} {
		if !strings.Contains(got, path) {
			t.Errorf("no problem at %q in\n%s", path, got)
		}
	}
}

// TestIDN09_PermissionsReachNoOtherGroupsKeys, for every prefix.
func TestIDN09_PermissionsReachNoOtherGroupsKeys(t *testing.T) {
	for _, prefix := range []string{"", "s", "service/", "service/post", "service/postgres", "service/postgres2/", "Service/postgres/", "cadre/v1/", "service/web/", "/service/postgres/"} {
		s := goodSpec()
		s.ConsulPermissions.KeyPrefixes = []string{prefix}
		wantProblem(t, s, "consul_permissions.key_prefixes[0]", "IDN-09")
	}
}

func TestMeshCheck(t *testing.T) {
	good := func() ServiceMesh {
		return ServiceMesh{Group: "pg", Proxies: []Proxy{
			{ID: "pg-pg-sidecar-proxy", Service: "pg-pg", Backend: "pg", Port: FirstProxyPort, LocalPort: 5432}, {ID: "pg-sidecar-proxy", Service: "pg"},
		}}
	}
	if err := good().Check("pg"); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*ServiceMesh){
		"another group":      func(m *ServiceMesh) { m.Group = "web" },
		"another id":         func(m *ServiceMesh) { m.Proxies[0].ID = "pg" },
		"twice":              func(m *ServiceMesh) { m.Proxies[1] = m.Proxies[0] },
		"no port":            func(m *ServiceMesh) { m.Proxies[0].Port = 0 },
		"a port of others":   func(m *ServiceMesh) { m.Proxies[0].Port = 8300 },
		"the callers' port":  func(m *ServiceMesh) { m.Proxies[0].Port = CallerPort },
		"a caller at a port": func(m *ServiceMesh) { m.Proxies[1].Port = FirstProxyPort + 1 },
		"no local port":      func(m *ServiceMesh) { m.Proxies[0].LocalPort = 0 },
		"no service":         func(m *ServiceMesh) { m.Proxies[0].Service, m.Proxies[0].ID = "", "-sidecar-proxy" },
		"a port twice": func(m *ServiceMesh) {
			m.Proxies = append(m.Proxies, Proxy{ID: "x-sidecar-proxy", Service: "x", Backend: "x", Port: FirstProxyPort, LocalPort: 1})
		},
		"a route to nowhere": func(m *ServiceMesh) { m.Routes = []RouteTo{{Name: "r", Port: 80}} },
	} {
		m := good()
		change(&m)
		if m.Check("pg") == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
