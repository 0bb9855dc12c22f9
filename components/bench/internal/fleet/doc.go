// Package fleet plays the agents of a cluster, many in one process, as cadre-agent is seen
// by coordinators: each is admitted, holds a Session with every coordinator and with the
// Peers that its map asks for, polls, reports, is woken, follows orders and renews.
//
//	"boot" (name, app, app-compose) ──► member ── admission ──► Sessions ── control loops
//	                                      ▲ boots again: ordered by the platform, "restart",
//	                                      │ or told that its Boot has ended
//
// What is in a CVM beside the agent is left out, and Peers' ports are: nothing listens on
// the virtual addresses of so many in one place.
package fleet
