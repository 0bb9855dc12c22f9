// Package attestsim is a simulated TDX platform: it makes evidence that a real verifier accepts,
// under a root of its own.
//
//	Cloud ── one seed: root CA, hosts' PCK chains, KMS keys   (the manufacturer,
//	  │                                                        the hosts, the KMS)
//	  └─ Boot ── Guest: event log, RTMR3, Handler             (one boot of one CVM)
//
// It is another root of trust, not a mode: a verifier makes all its checks for it, and only a
// verifier whose configuration names the Cloud's root accepts its quotes. It proves nothing about
// hardware; a process that can read the Cloud's directory can make any evidence. Production
// packages must not import it.
package attestsim
