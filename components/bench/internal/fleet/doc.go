// Package fleet plays the agents of a cluster, many in one process, as coordinators see
// cadre-agent: each is admitted, holds a Session with every coordinator and with the Peers of its
// map, polls, reports, is woken, follows orders and renews.
//
//	"boot" (name, app, app-compose) ──► member ── admission ──► Sessions ── control loops
//	                                      ▲ boots again: ordered by the platform, "restart",
//	                                      │ or after the end of its Boot
//
// The other programs of a CVM are left out, and so are Peers' ports: nothing listens on the virtual
// addresses of so many members in one place.
package fleet
