// Package takeover ends the Lease of a leader whose machine is lost, before its Consul session
// expires. A Lease ends when its holder releases it, or when the session expires: at most twice the
// TTL after the last renewal. The TTL starts again when Consul elects another leader, as it does
// after the loss of a machine with both leaders on it.
//
// Each standby checks whether Consul's servers report the leader's own server as failed. They use
// the same Sessions as its Raft. Of three servers, an unreachable one has no quorum, so it can
// neither renew the Lease nor write under it. By the time of the takeover its clock has ended the
// Lease, see Lasting:
//
//	last answer ── gossip asks, suspects (4 s and more) ── failed ── Lasting ── Lease ended
//	last renewal ─────────── the holder's own deadline, 7 s ──┘
//
// Safety does not depend on this package. Two mechanisms prevent two leaders from acting: the fence
// in each write, and the next leader's wait for the last one's calls to end. A wrong decision here
// costs one change of leaders.
package takeover
