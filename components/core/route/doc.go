// Package route decides the service layer: the proxies that the members of each group run, the
// names that they may dial, and Consul's configuration for both. It decides from the specs in
// force; the leader writes.
//
//	specs in force ──┐                ┌── mesh/<group>     proxies, routes (group.ServiceMesh)
//	addresses given ─┼── Decide ──────┼── routes/<route>   its VIP, permanent
//	meshes before ───┘                └── Config           resolvers and intentions in Consul
//
// Names: a backend's service is its identity ([group.Spec.Service]); callers have the identity of
// their group. Only the groups that a route's backend allows may call the route: [Config] has no
// intention for a route without callers, and no service mesh names such a route.
package route
