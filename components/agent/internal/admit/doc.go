// Package admit gets this Boot admitted:
//
//	Boot                                   coordinator (first contact)
//	 │  Challenge(app, instance, key, nonce) ──►
//	 │  ◄── nonce, slot, coordinator's evidence over its TLS key, this channel, our nonce
//	 │  verify and compare with the measured trust file; nothing is sent before
//	 │  Admit(statement, evidence over our key, this channel, its nonce) ──►
//	 │  ◄── SVID, CA bundle, Consul credentials, secrets, first peers
//
// The Boot key lives in memory only: a new process is a new Boot.
package admit
