// Package route decides the service layer: which proxies the members of each group run, which
// names they may dial, and what Consul has to know of it. It decides from the specs in force;
// the leader writes.
//
//	specs in force ──┐                ┌── mesh/<group>     proxies, routes (group.Mesh)
//	addresses given ─┼── Decide ──────┼── routes/<route>   its VIP, for ever
//	meshes before ───┘                └── Config           resolvers and intentions in Consul
//
// Names: a backend's service is its identity ([group.Spec.Service]); callers have the identity
// of their group. Who may call a route are the groups that its backend allows, and nobody
// else: [Config] has no intention for a route without callers, and no mesh names one.
package route
