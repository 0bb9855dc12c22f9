// Package overlaystatus reports on a node of the overlay to operators and Prometheus. It
// turns the node's state of its Links into messages and metrics, and runs measurements
// for a coordinator. Agents and coordinators do this alike; the overlay itself has
// neither messages nor metrics.
//
//	operator ── GetOverlay, PingPeer, BenchPeer ──► coordinator ── its own node
//	                                                 │
//	                                   OverlayStatus, OverlayPing, OverlayBench
//	                                                 ▼
//	                                               agent ── its node
//
// No decision depends on these reports: an agent is admitted, but its report on its own
// network is not trusted, so a coordinator bounds the data that it passes on.
package overlaystatus
