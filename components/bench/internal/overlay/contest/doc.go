// Package contest measures the overlay against its competitors and its aims. In
// each round every contender is set up afresh, in random order, between two hosts
// on one cable; ratios are taken inside a round. Figures of wide-area, translated
// and failing networks are measured in the NAT lab, each on its own.
//
//	app ─► tunnel ══ cable ══ tunnel ─► app      each box a process (package worker)
//
// CPU time is that of all processes of both ends, the application's included: a
// tunnel that leaves TCP to its user is charged for it like one that does not. The
// share of the tunnel alone stands in the detail.
package contest
