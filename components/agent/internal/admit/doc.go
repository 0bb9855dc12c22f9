// Package admit gets this Boot admitted:
//
//	Boot                                   coordinator (first contact)
//	 │  Challenge(app, instance, key, nonce) ──►
//	 │  ◄── nonce, slot, coordinator's evidence over its TLS key, this channel, our nonce
//	 │  verify and compare with the measured trust file; nothing is sent before
//	 │  Admit(statement, evidence over our key, this channel, its nonce) ──►
//	 │  ◄── SVID, CA bundle, Consul token, secrets, first peers
//
// The Boot key lives in memory only. A process that is given the key of one before it is the
// same Boot, and goes on with what that one held (Resume).
package admit
