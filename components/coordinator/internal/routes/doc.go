// Package routes keeps the service layer in the state that the accepted specs define, while this
// coordinator leads.
//
//	the View ── route.Decide ──┬── routes/<route>, mesh/<group>   fenced by the Lease
//	                           └── Consul's config entries        by check-and-set
//
// Addresses are recorded before any entry leads to them. Agents, the catalog, the peer maps and the
// Consul proxy follow the records, and Consul's own proxies follow the config entries. These are a
// service-resolver for each backend that a route leads to, a redirect for each route, and the
// intentions with the permitted callers.
//
// Cadre's entries in Consul have its mark. Cadre never writes or deletes another entry: an entry
// that blocks a spec is reported. Without changes nothing is written, and Consul is read only at a
// long interval, to correct changes by others.
package routes
