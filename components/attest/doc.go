// Package attest answers one question: is this Evidence genuine, and what does
// it say? It parses and verifies TDX quotes, replays dstack event logs, reads
// the measured app-compose.json, and talks to the guest agent. What is allowed
// is core/policy's question.
//
//	guest agent ── GuestClient ──▶ Evidence ── Verifier ──▶ policy.Claims
//	                                              ▲
//	                              Trust ──────────┘ roots, pins, OS images
//
// The order of the checks: sizes, framing, certificate chain and signatures, TD
// and SEAM attributes, quoting enclave, report data, replay of the event log,
// boot events, MRCONFIGID, app-compose.json. The first failure ends it.
//
// Not checked here: TCB levels and revocation, which need Intel's collateral
// (see Verifier), freshness and uniqueness, which are the admission's.
//
// Simulated evidence is made by package attestsim under another root of trust;
// nothing here verifies less for it.
package attest
