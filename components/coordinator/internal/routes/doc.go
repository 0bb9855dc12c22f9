// Package routes keeps the service layer at what the accepted specs make it, while this
// coordinator leads.
//
//	the View ── route.Decide ──┬── routes/<route>, mesh/<group>   fenced by the Lease
//	                           └── Consul's config entries        by check-and-set
//
// Addresses are recorded before anything leads to them. Agents, the catalog, the peer maps
// and the Consul proxy go by the records; Consul's own proxies by the config entries: a
// service-resolver for each backend that a route leads to, one for each route, which
// redirects there, and the intentions that say who may call.
//
// What is ours among Consul's entries has our mark, and nothing else is ever written or
// deleted: what is in the way of a spec is told. While
// nothing changes nothing is written, and Consul is asked only so often that what somebody
// else changed is put right again.
package routes
