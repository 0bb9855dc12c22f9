// Package handover is the consumer's side of a planned hand-over: while an Operation moves the
// leadership of a group, this CVM pauses its clients on the routes to that group.
//
//	PauseRoutes ────► Routes ─► one machine for each route ─► connpause: new connections wait
//	ResumeRoutes ─►   ▲                                  └► pooler: queries wait
//	                   └── which endpoints does our own Envoy have for the route?
//
// The machine releases a route when Envoy shows the new leader, so that paused clients reach the
// new leader and not the previous one. A local clock limits each pause, whichever caller asked for
// the pause. A pause without a release ends when Envoy shows another leader. A new worker starts with
// no pauses.
//
// Calls may repeat, arrive late and arrive in any order. The operation's name makes them
// idempotent, because it names one attempt: <operation>/<attempt>. All attempts of an Operation
// together pause a route for twice its limit at most.
//
//	machine.go  when a route is paused and released: pure
//	budget.go   for how long one Operation may pause a route in all: pure
//	unit.go     one route: its machine, clock and effects
//	pauser.go   pauses the clients of a route: a connpause.Pauser, or a pooler
//	unmade.go   the placeholder for a pauser that cannot be made
//	routes.go   all routes
package handover
