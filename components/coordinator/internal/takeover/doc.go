// Package takeover ends the Lease of a leader whose machine is gone, before Consul's time
// for its session is over. A Lease ends when its holder gives it up, or by the session's
// time: at most twice the TTL after the last renewal, and all over again when Consul elected
// another leader meanwhile, which is what happens when a machine is lost with both on it.
//
// Those who do not lead look whether Consul's servers gave the leader's own server up. They
// talk over the same Sessions as its Raft does: of three servers, one that no other reaches
// has no quorum, so it can neither renew the Lease nor write under it. Its clock has ended
// the Lease by then, see Lasting:
//
//	last answer ── gossip asks, suspects (4 s and more) ── failed ── Lasting ── Lease ended
//	last renewal ─────────── the holder's own deadline, 7 s ──┘
//
// Nothing of that is what keeps two leaders from acting. It is, as ever, the fence in each
// write, and that the next leader waits for calls of the last one to end: a decision that
// was wrong costs a change of leaders.
package takeover
