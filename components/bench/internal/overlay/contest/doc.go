// Package contest measures the overlay against its competitors and its aims. In each round every
// contender is set up again, in random order, between two hosts on one cable; ratios are taken
// inside a round. Figures of wide-area, translated and failing networks are measured separately in
// the NAT lab.
//
//	app ─► tunnel ══ cable ══ tunnel ─► app      each box a process (package worker)
//
// CPU time is the time of all processes of both ends, the application's included: a tunnel that
// leaves TCP to its user is charged for it like a tunnel that carries TCP. The detail has the
// tunnel's own share.
package contest
