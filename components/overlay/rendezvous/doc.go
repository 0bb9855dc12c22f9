// Package rendezvous is the public meeting place of an overlay, for machines that cannot
// accept connections. It has mailboxes for signaling, STUN to find paths, and TURN to
// relay where no direct path works.
//
//	Node A ── WebSocket, SVID ──► front ── post ◄── WebSocket, SVID ── Node B
//	       ◄─ certificates, credentials ─┘ └─ revoked ◄── coordinators
//	       ── STUN, TURN (UDP, TCP) ──► relay ──► Node B, or B's own relay
//
// It is trusted with liveness only. It holds no secret for reading a message, joining a
// cluster or impersonating a member. Clusters give it their CA's certificate, which is
// public, and it serves only members that prove themselves. A captured box can delay,
// drop and reorder messages. It can see which members communicate, and how much (OVL-04).
// Any number may run; they do not know of each other.
//
//	internal/front        HTTP and WebSocket, and their authorization
//	internal/post         mailboxes in bounded memory
//	internal/relay        STUN and TURN
//	internal/credential   TURN credentials, minutes long, bound to a Boot
//	internal/revoked      Boots that their coordinators have ended
//	internal/roots        the clusters that are served
//	internal/certificate  the box's own certificate
//	internal/limit        token buckets
//	internal/meter        counters
package rendezvous
