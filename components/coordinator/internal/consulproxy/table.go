package consulproxy

import "net/http"

// Rule allows one kind of request.
type Rule struct {
	Method string
	// Path of segments: {name} stands for one segment, {key} at the end for the rest.
	Path string
	// Query are the allowed parameters, in addition to Common.
	Query []string
	// MaxBody in bytes; 0: the request may have no body.
	MaxBody int64
	// Check is the check of the request beyond its form.
	Check Check
	// Open to callers without a token.
	Open bool
	// Walks: Consul scans the entries of all members, even for a small answer.
	Walks bool
}

// Check is a check or a change of a request beyond its form.
type Check string

const (
	// CheckNone leaves the rest to Consul's ACL.
	CheckNone Check = ""
	// CheckKey: the key is in the caller's own scope.
	CheckKey Check = "the key is in the own folder"
	// CheckSession: the segment is a UUID.
	CheckSession Check = "the ID is a UUID"
	// CheckOwnNode: the segment is the caller's Slot.
	CheckOwnNode Check = "the node is the caller's Slot"
	// CheckCreate rewrites the body of a new session.
	CheckCreate Check = "`Node` becomes the caller's Slot, and checks are dropped; `TTL` is required"
	// CheckTxn judges each operation of a transaction.
	CheckTxn Check = "KV operations in the own folder only; each key is read once, and one tree"
	// CheckOwnSessions replaces the request by one for the sessions of the caller's node.
	CheckOwnSessions Check = "answered with the sessions of the caller's Slot"
	// CheckSelf never reaches Consul.
	CheckSelf Check = "answered by the Consul proxy: datacenter, the caller's Slot as node, minimum TTL of sessions"
)

// Common parameters are allowed on every request. The token is moved to a header.
var Common = []string{"dc", "token", "pretty"}

var (
	// reads are the consistency parameters of reads.
	reads = []string{"consistent", "stale", "leader"}
	// blocking are the parameters of blocking queries, and filtered those of queries with a filter.
	blocking = []string{"consistent", "stale", "leader", "index", "wait"}
	filtered = []string{"consistent", "stale", "leader", "index", "wait", "filter"}
)

func with(some []string, more ...string) []string {
	return append(append([]string{}, some...), more...)
}

const (
	// maxValue is Consul's own bound on a value, and on a transaction.
	maxValue       = 512 << 10
	maxSessionBody = 4 << 10
)

// Rules are all allowed requests. Any other request is refused.
var Rules = []Rule{
	{Method: http.MethodGet, Path: "/v1/kv/{key}", Query: with(blocking, "recurse", "keys", "separator", "raw"), Check: CheckKey},             // state of the workload, blocking
	{Method: http.MethodPut, Path: "/v1/kv/{key}", Query: []string{"acquire", "release", "cas", "flags"}, MaxBody: maxValue, Check: CheckKey}, // state and locks of the workload
	{Method: http.MethodDelete, Path: "/v1/kv/{key}", Query: []string{"cas", "recurse"}, Check: CheckKey},                                     // state and locks of the workload
	{Method: http.MethodPut, Path: "/v1/txn", Query: reads, MaxBody: maxValue, Check: CheckTxn},                                               // several keys at once
	{Method: http.MethodPut, Path: "/v1/session/create", MaxBody: maxSessionBody, Check: CheckCreate},                                         // sessions for locks
	{Method: http.MethodPut, Path: "/v1/session/renew/{session}", Check: CheckSession},                                                        // Consul renews only sessions of the own node
	{Method: http.MethodPut, Path: "/v1/session/destroy/{session}", Check: CheckSession},                                                      // Consul ends only sessions of the own node
	{Method: http.MethodGet, Path: "/v1/session/info/{session}", Query: blocking, Check: CheckSession},                                        // Consul shows only sessions of the own node
	{Method: http.MethodGet, Path: "/v1/session/node/{node}", Query: blocking, Check: CheckOwnNode},                                           // the own sessions
	{Method: http.MethodGet, Path: "/v1/session/list", Query: blocking, Check: CheckOwnSessions},                                              // the own sessions, without a scan of all sessions
	{Method: http.MethodGet, Path: "/v1/health/service/{service}", Query: with(filtered, "passing", "tag")},                                   // addresses and health of a service
	{Method: http.MethodGet, Path: "/v1/health/checks/{service}", Query: filtered},                                                            // health checks of a service
	{Method: http.MethodGet, Path: "/v1/health/node/{node}", Query: filtered},                                                                 // health checks of a member
	{Method: http.MethodGet, Path: "/v1/health/state/{state}", Query: filtered, Walks: true},                                                  // health checks by state
	{Method: http.MethodGet, Path: "/v1/catalog/services", Query: filtered, Walks: true},                                                      // list of services
	{Method: http.MethodGet, Path: "/v1/catalog/service/{service}", Query: with(filtered, "tag")},                                             // addresses of a service
	{Method: http.MethodGet, Path: "/v1/catalog/nodes", Query: filtered, Walks: true},                                                         // list of members
	{Method: http.MethodGet, Path: "/v1/catalog/node/{node}", Query: filtered},                                                                // services of a member
	{Method: http.MethodGet, Path: "/v1/catalog/node-services/{node}", Query: filtered},                                                       // services of a member
	{Method: http.MethodGet, Path: "/v1/catalog/datacenters"},                                                                                 // tools request it
	{Method: http.MethodGet, Path: "/v1/config/{kind}", Query: filtered, Walks: true},                                                         // configuration of the services that the token may read
	{Method: http.MethodGet, Path: "/v1/config/{kind}/{name}", Query: blocking},                                                               // configuration of a service
	{Method: http.MethodGet, Path: "/v1/acl/token/self", Query: reads},                                                                        // the own token
	{Method: http.MethodGet, Path: "/v1/agent/self", Check: CheckSelf},                                                                        // Patroni reads the minimum TTL from it; Consul's own answer has the server's configuration
	{Method: http.MethodGet, Path: "/v1/status/leader", Open: true},                                                                           // whether Consul has a leader
}
