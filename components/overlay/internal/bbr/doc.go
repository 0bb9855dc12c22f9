// Package bbr decides how fast a QUIC connection sends. It replaces the
// congestion controller of github.com/apernet/quic-go, which halves its window
// at every loss and is therefore useless on a link that loses packets for
// reasons of its own. It follows the published BBR model (draft-ietf-ccwg-bbr):
// it measures the path instead of waiting for it to fail. Options and figures are
// in docs/decisions/0006-congestion-control.md.
//
//	quic-go ── packet sent ──► flight: one record per packet in flight
//	        ── acks, losses ─► flight ─ sample ─► model: bandwidth, round trip,
//	                                                     random loss, batching of acks
//	                                     │
//	                                     ▼
//	                           phase: which gain applies now
//	                                     │
//	        ◄── may send ───── pacer (rate) and window (bytes in flight)
//
// # The model
//
// Two figures describe a path: its bandwidth (the highest recent delivery rate, measured
// per round trip of packets) and its round trip without a queue (the shortest recent
// one). Their product is the amount in flight that fills the path without a queue. The
// sender paces at the bandwidth and keeps no more than twice the product in flight, plus
// room for acknowledgements that come in batches.
//
//	startup ──full──► drain ──► cruise ──► up ──► hold ─┬─► down ─┐
//	                              ▲         ▲    grew │ │         │
//	                              │         └─────────┘ │         │
//	                              ├─────────────────────┼─────────┘
//	                              └──── probe RTT ◄── any, round trip not
//	                                                  confirmed for 5 s
//
// Startup doubles the rate each round until it stops helping. From then on a cycle of
// some eight rounds asks for more. First comes one round trip at 5/4 of the rate (up),
// then one round to observe the result (hold). If the rate grew, both repeat, else the
// sender drains to the amount that fills the path (down). A round trip that is not
// confirmed for 5 s is measured again with half the window.
//
// # Differences from the draft
//
// Loss never cuts the rate below the delivered rate. Versions 2 and 3 back off above 2 %
// loss, so a link with 5 % random loss would starve. Here loss and delay shorten memory.
// The bandwidth is the best of the last two cycles. After three congested rounds in
// sequence it is the rate that those three rounds delivered, and it stays there until the
// next up. A round is congested when even its shortest round trip shows a queue, when
// more was lost than random loss explains, or when the network marked packets (ECN). Loss
// alone does this once per cycle: repeated, unexplained random loss would wear the
// estimate down.
//
// Random loss is learned, up to 10 %, from rounds with a mean round trip of about the least recent
// mean: such loss is not caused by a queue. A round that lost more lowers a ceiling of the window,
// which stays above the amount that fills the path; cycles without such a round raise it again. The
// ceiling protects a short buffer, for example the 256 packets that quic-go itself queues for a
// connection that is not scheduled. If an up lost too much, it is delayed, and the rest before the
// next is doubled, up to eight times or two seconds.
//
// A round trip that grew permanently looks like a queue that never drains. When memory
// was shortened twice in sequence and the queue is still there, the round trip is
// measured again at once instead of after 5 s. A round trip that suddenly fell is
// measured again too: the packets of the old, longer path are a queue on the new one, and
// the measurements show only that queue. Both matter here because the underlay moves
// connections between paths without a notification.
//
// A round lasts at least a millisecond, and the window never assumes a shorter round
// trip: shorter measurements show the scheduler. A round ends after two round trips
// without a queue in any case, so that a queue that grows is noticed while it grows.
//
// # Application-limited samples
//
// quic-go does not report that it ran out of data. The sender derives it: quic-go was
// permitted to send and did not, and since then the pacer has filled up. Samples of such
// times count only when they exceed the estimate, and a cycle without a round free of
// them does not age it.
//
// # Contract with quic-go
//
// The connection's one goroutine calls all methods except [New] and [Install]. The
// package is unsafe for concurrent use; it never blocks, reads a clock or keeps a
// goroutine. quic-go calls both OnPacketAcked/OnCongestionEvent per packet and
// OnCongestionEventEx per acknowledgement; the work is done in the latter. quic-go drops
// packets after a probe timeout without a call: their records may therefore stay behind
// and are overwritten later.
package bbr
