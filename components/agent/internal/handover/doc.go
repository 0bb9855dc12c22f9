// Package handover is the consumer's side of a planned hand-over: while an Operation moves
// the leadership of a group, this CVM's routes to that group have clients wait.
//
//	HoldRoutes ────► Routes ─► one machine for each route ─► gate: new connections wait
//	ReleaseRoutes ─►   ▲                                  └► pooler: queries wait
//	                   └── which endpoints does our own Envoy have for the route?
//
// A route is released when Envoy shows the new leader, so that who was held goes there and
// not to the one before. Nothing waits on a promise: the limit of each hold is a clock here,
// whoever asked for it, and a hold whose release never comes ends when Envoy shows another
// leader. A worker that is new holds nothing.
//
// Calls may come twice, late and in any order. What makes them one is the operation's name,
// which names one attempt: <operation>/<attempt>. All attempts of an Operation together hold a
// route for twice its limit at most.
//
//	machine.go  when a route is held and released: pure
//	budget.go   for how long one Operation may hold a route in all: pure
//	unit.go     one route: its machine, clock and effects
//	holder.go   what holds: a gate, or a pooler
//	unmade.go   what stands for one that cannot be made
//	routes.go   all routes
package handover
