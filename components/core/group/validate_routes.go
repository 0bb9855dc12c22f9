package group

import (
	"fmt"
	"strings"
	"time"
)

func (v *validator) backends(s Spec) {
	seen, ports, services := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, b := range s.Backends {
		path := fmt.Sprintf("backend[%q]", b.Name)
		v.item(path, b.Name, seen)
		if b.Protocol != "tcp" && b.Protocol != "udp" {
			v.add(path+".protocol", "", "%q is unknown: use tcp or udp", b.Protocol)
		}
		v.workloadPort(path+".port", "OVL-08", b.Port)
		switch {
		case b.Address != "" && b.Address != LoopbackAddress:
			v.add(path+".address", "OVL-08", "is %q: must be %q, or absent where the workload listens on its VIP", b.Address, LoopbackAddress)
		case b.Address != "" && b.Protocol == "udp":
			v.add(path+".address", "", "is for tcp only: let a udp workload listen on its VIP")
		}
		if key := fmt.Sprintf("%s/%d", b.Protocol, b.Port); ports[key] {
			v.add(path+".port", "", "%s is offered by another backend already", key)
		} else {
			ports[key] = true
		}
		for i, g := range b.Allow {
			if p := NameProblem(g); p != "" {
				v.add(fmt.Sprintf("%s.allow[%d]", path, i), "", "%q %s", g, p)
			}
		}
		if p := NameProblem(b.Workload); p != "" && b.Workload != b.Name {
			v.add(path+".workload", "", "%q %s", b.Workload, p)
		}
		v.registration(path+".registration", b.Registration)
		service := s.Service(b)
		switch other, taken := services[service]; {
		case taken:
			v.add(path, "", "is the service %q in the catalog, and so is backend %q: give them different workloads or parents", service, other)
		case service == s.Name:
			v.add(path+".registration.parent", "", "%q is the service of the group itself: name another", service)
		}
		services[service] = b.Name
	}
}

func (v *validator) registration(path string, r Registration) {
	if r.Owner != OwnerPlatform && r.Owner != OwnerWorkload {
		v.add(path+".owner", "", "%q is unknown: use %s or %s", r.Owner, OwnerPlatform, OwnerWorkload)
	}
	if p := NameProblem(r.Parent); p != "" && r.Parent != "" {
		v.add(path+".parent", "", "%q %s", r.Parent, p)
	}
	if r.Parent == consulService {
		v.add(path+".parent", "", "is Consul's own service: name another")
	}
	switch {
	case r.TTL == 0:
	case r.Owner == OwnerPlatform:
		v.add(path+".ttl", "", "is for owner %q only: the agent's checks have intervals of their own", OwnerWorkload)
	case r.TTL.D() < minRegistrationTTL || r.TTL.D() > maxRegistrationTTL:
		v.add(path+".ttl", "", "is %s: must be %s to %s", r.TTL, minRegistrationTTL, maxRegistrationTTL)
	}
}

// consulService is the service that Consul's servers are in their own catalog.
const consulService = "consul"

// routes validates the routes of one spec. route.Conflicts compares them with other groups.
func (v *validator) routes(s Spec) {
	if len(s.Routes) > maxRoutes {
		v.add("route", "", "there are %d, at most %d are allowed", len(s.Routes), maxRoutes)
	}
	backends, seen := map[string]Backend{}, map[string]bool{}
	for _, b := range s.Backends {
		backends[b.Name] = b
	}
	for _, r := range s.Routes {
		path := fmt.Sprintf("route[%q]", r.Name)
		v.item(path, r.Name, seen)
		v.routeName(path, s, r.Name)
		v.alias(path+".alias", s, r)
		b, known := backends[r.Backend]
		switch {
		case r.Backend == "":
			v.add(path+".backend", "", "is missing: name the backend that the route leads to")
		case !known:
			v.add(path+".backend", "", "there is no backend %q in this group", r.Backend)
		case b.Protocol != "tcp":
			v.add(path+".backend", "", "%q is %s: routes carry tcp only", r.Backend, b.Protocol)
		case strings.HasSuffix(s.Service(b), proxySuffix) || ProxyOf(s.Service(b)) == s.Name:
			v.add(path+".backend", "", "%q is the service %q in the catalog, where names that end in %q are those of proxies: give it another workload or parent", r.Backend, s.Service(b), proxySuffix)
		}
		v.role(path+".role", r.Role, known && b.Registration.Owner == OwnerWorkload, s.Workload.Kind)
		v.hold(path, r)
		v.pooler(path, r)
	}
}

// routeName rejects names that have another meaning where routes are dialled.
func (v *validator) routeName(path string, s Spec, name string) {
	if name == "localhost" || name == consulService || strings.HasSuffix(name, proxySuffix) {
		v.add(path, "", "the name has another meaning in every CVM: use another")
	}
	if g, _, err := ParseSlot(name); err == nil {
		v.add(path, "", "reads as the name of a slot of group %q, which members dial by it: use another", g)
	}
	for _, b := range s.Backends {
		if s.Service(b) == name {
			v.add(path, "", "is the service of backend %q in the catalog already: use another name, or another workload for the backend", b.Name)
		}
	}
}

// alias rejects second names that one spec shows to be wrong. route.Conflicts compares them with the
// names that the callers dial already.
func (v *validator) alias(path string, s Spec, r Route) {
	switch p := NameProblem(r.Alias); {
	case r.Alias == "":
	case p != "":
		v.add(path, "", "%q %s", r.Alias, p)
	case r.Alias == r.Name:
		v.add(path, "", "is the name of the route itself: leave it out")
	default:
		v.routeName(path, s, r.Alias)
	}
}

func (v *validator) role(path, role string, published bool, kind string) {
	switch {
	case role == "":
	case published:
		if p := NameProblem(role); p != "" {
			v.add(path, "", "%q %s", role, p)
		}
		if role == AnyRole {
			v.add(path, "", "%q means all roles: leave role out for any member", role)
		}
	case role != "leader" && role != "follower" && role != "learner":
		v.add(path, "", "%q is no role: use leader, follower or learner, or a registration of owner %q, which may publish any", role, OwnerWorkload)
	case kind == WorkloadNone || kind == "":
		v.add(path, "", "the members of this group have no roles: give the group a workload with a driver, or the backend a registration of owner %q", OwnerWorkload)
	}
}

func (v *validator) hold(path string, r Route) {
	switch {
	case r.Hold == 0:
	case r.Role == "":
		v.add(path+".hold", "", "is for routes with a role only: nothing else moves")
	case r.Hold.D() < minHold || r.Hold.D() > maxHold:
		v.add(path+".hold", "", "is %s: must be %s to %s", r.Hold, minHold, maxHold)
	}
}

func (v *validator) pooler(path string, r Route) {
	if r.Pooler != "" && r.Pooler != PoolerPgBouncer {
		v.add(path+".pooler", "", "%q is unknown: use %s, or none", r.Pooler, PoolerPgBouncer)
	}
	switch {
	case len(r.PoolerUsers) > 0 && r.Pooler == "":
		v.add(path+".pooler_users", "", "is for routes with a pooler only")
	case len(r.PoolerUsers) == 0 && r.Pooler != "":
		// A pooler rejects unknown users, also users that the database accepts.
		v.add(path+".pooler_users", "", `names no user, so no client could log in: name each user, with its secret or with ""`)
	}
	if n := len(r.PoolerUsers); n > MaxPoolerUsers {
		v.add(path+".pooler_users", "", "there are %d, at most %d are allowed", n, MaxPoolerUsers)
	}
	for _, user := range sortedKeys(r.PoolerUsers) {
		at := fmt.Sprintf("%s.pooler_users[%q]", path, user)
		switch {
		case !isEnvName(user) || len(user) > MaxPoolerUserName:
			v.add(at, "", "is no name of a user: letters, digits and '_', at most %d bytes", MaxPoolerUserName)
		case user == PoolerConsole:
			v.add(at, "", "is PgBouncer's own, by which it is administered: use another")
		}
		if name := r.PoolerUsers[user]; name != "" && NameProblem(name) != "" {
			v.add(at, "", "%q is no name of a secret", name)
		}
	}
}

func (v *validator) consulPermissions(s Spec) {
	const path = "consul_permissions.key_prefixes"
	p, scope := s.ConsulPermissions, KeyScope(s.Name)
	if len(p.KeyPrefixes) > maxKeyPrefixes {
		v.add(path, "", "there are %d, at most %d are allowed", len(p.KeyPrefixes), maxKeyPrefixes)
	}
	for i, prefix := range p.KeyPrefixes {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case !strings.HasPrefix(prefix, scope):
			v.add(at, "IDN-09", "%q lies outside of %s: a group has no right over keys of others", prefix, scope)
		case !isPlainWord(prefix, 256) || strings.Contains(prefix, "//") || strings.Contains(prefix, "/../") || strings.Contains(prefix, "/./"):
			v.add(at, "", "%q is not a plain key prefix", prefix)
		}
	}
}

// HoldLimit bounds how long a hand-over may pause callers of r; 0: no pause.
func (r Route) HoldLimit() time.Duration {
	if r.Hold == 0 && r.Pooler != "" {
		return defaultPoolerHold
	}
	return r.Hold.D()
}

// defaultPoolerHold is well below the time after which applications give up on a query.
const defaultPoolerHold = 10 * time.Second
