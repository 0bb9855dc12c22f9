// Package overlaystatus tells people and Prometheus about a node of the overlay: it turns
// what the node says of its Links into messages and metrics, and measures with it
// when a coordinator asks. Agents and coordinators do this alike; the overlay itself
// knows neither messages nor metrics.
//
//	operator ── GetOverlay, PingPeer, BenchPeer ──► coordinator ── its own node
//	                                                 │
//	                                   OverlayStatus, OverlayPing, OverlayBench
//	                                                 ▼
//	                                               agent ── its node
//
// Nothing decides on what is told here: an agent is admitted, not trusted to be
// right about its own network, so a coordinator bounds what it passes on.
package overlaystatus
