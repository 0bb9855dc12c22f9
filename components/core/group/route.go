package group

import "time"

// The component that reports a backend's health to the catalog.
const (
	// OwnerPlatform: health comes from the agent's checks, the role from the workload's
	// driver. The default.
	OwnerPlatform = "platform"
	// OwnerWorkload: the workload says both at the agent, PUT /v1/backends/<name>.
	OwnerWorkload = "workload"
)

// AnyRole names the subset of all roles; no role has this name.
const AnyRole = "any"

// PoolerPgBouncer has a PgBouncer in the caller's CVM pool the connections of a route.
const PoolerPgBouncer = "pgbouncer"

// The characters of a pooler's user names. Agents reject other ones, long after the plan.
const (
	MaxPoolerUsers = 64
	// MaxPoolerUserName is in bytes.
	MaxPoolerUserName = 63
	// PoolerConsole is PgBouncer's own user and database, by which it is administered.
	PoolerConsole = "pgbouncer"
)

// Registration names the component that registers a backend in the catalog, and the service's name.
type Registration struct {
	// Owner: "platform" (default) or "workload".
	Owner string `json:"owner,omitempty"`
	// Parent is the backend's service in Consul's catalog; absent: <group>-<workload>.
	Parent string `json:"parent,omitempty"`
	// TTL is how long a workload's report is valid; only for owner "workload", default 30s.
	TTL Duration `json:"ttl,omitempty"`
}

// Route is a name that applications of other groups dial as <name>:<port of the backend>. It leads
// to the members whose backend is healthy, or to the members among them that have the role. A Route
// is not part of the Revision: a change moves no Slot.
type Route struct {
	// Name is unique in the cluster.
	Name string `json:"name"`
	// Alias is a second name by which callers dial the route. Many routes may have one alias, as long
	// as no group may call two of them: the members of a cloned deployment reach its routes by the
	// names of the original.
	Alias string `json:"alias,omitempty"`
	// Backend of this group that it leads to; a TCP one.
	Backend string `json:"backend"`
	// Role that a member must have: "leader", "follower" or "learner" as the driver reports, or any
	// tag that a workload publishes itself; absent: any member.
	Role string `json:"role,omitempty"`
	// Hold is how long agents of callers may hold a new connection back while an Operation
	// moves the role; absent: not at all, or 10s with a pooler. 100ms to 30s.
	Hold Duration `json:"hold,omitempty"`
	// Pooler: "pgbouncer", or absent for none.
	Pooler string `json:"pooler,omitempty"`
	// PoolerUsers are the users that may log in at the pooler. The value is the calling group's
	// secret with the password at the database, or "" where the database asks for none. The
	// secret's PoolerRoutes must name this route. A pooler has at least one user.
	PoolerUsers map[string]string `json:"pooler_users,omitempty"`
}

// ConsulPermissions are rights of the group's Consul token in addition to the rights of its
// workload kind. They reach no key outside of service/<group>/.
type ConsulPermissions struct {
	// KeyPrefixes that may be written: each is service/<group>/ or begins with it.
	KeyPrefixes []string `json:"key_prefixes,omitempty"`
	// SessionWrite: it may make sessions, on the node of its own Slot.
	SessionWrite bool `json:"session_write,omitempty"`
}

// Bounds and defaults of the service layer.
const (
	DefaultRegistrationTTL = 30 * time.Second
	minRegistrationTTL     = 2 * time.Second
	maxRegistrationTTL     = time.Hour
	minHold                = 100 * time.Millisecond
	maxHold                = 30 * time.Second
	maxRoutes              = 32
	maxKeyPrefixes         = 16
)

func (b *Backend) normalize() {
	fill(&b.Protocol, "tcp")
	fill(&b.Workload, b.Name)
	fill(&b.Registration.Owner, OwnerPlatform)
	if b.Registration.Owner == OwnerWorkload {
		fill(&b.Registration.TTL, Duration(DefaultRegistrationTTL))
	}
}

// Service is the name of one of the group's backends in Consul's catalog, and its identity.
func (s Spec) Service(b Backend) string {
	if b.Registration.Parent != "" {
		return b.Registration.Parent
	}
	workload := b.Workload
	if workload == "" {
		workload = b.Name
	}
	return s.Name + "-" + workload
}

// KeyScope is where the keys of a group's workload are in Consul KV.
func KeyScope(group string) string { return "service/" + group + "/" }
