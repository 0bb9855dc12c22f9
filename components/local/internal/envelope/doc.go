// Package envelope is the encrypted environment of a CVM: X25519 with an
// ephemeral sender key, the shared secret used directly as AES-256-GCM key,
// eph_pub(32) || iv(12) || ciphertext || tag(16) in hex. It gives secrecy and no
// proof of origin.
package envelope
