// Package attest answers one question: is this Evidence genuine, and which claims does it prove? It
// parses and verifies TDX quotes, replays dstack event logs, reads the measured app-compose.json,
// and talks to the guest agent. Package core/policy decides which claims are allowed.
//
//	guest agent ── GuestClient ──▶ Evidence ── Verifier ──▶ policy.Claims
//	                                              ▲
//	                              Trust ──────────┘ roots, pins, OS images
//
// The order of the checks: sizes, framing, certificate chain and signatures, TD and SEAM
// attributes, quoting enclave, report data, replay of the event log, boot events, MRCONFIGID,
// app-compose.json. The first failure ends it.
//
// Not checked here: TCB levels and revocation, which need Intel's collateral (see Verifier),
// freshness and uniqueness, which are the admission's.
//
// Package attestsim makes simulated evidence under another root of trust; this package makes all
// its checks for it, too.
package attest
