// Package admit requests the admission of this Boot:
//
//	Boot                                   coordinator (first contact)
//	 │  Challenge(app, instance, key, nonce) ──►
//	 │  ◄── nonce, slot, coordinator's evidence over its TLS key, this channel, our nonce
//	 │  verify and compare with the measured trust file; nothing is sent before
//	 │  Admit(statement, evidence over our key, this channel, its nonce) ──►
//	 │  ◄── SVID, CA bundle, Consul token, secrets, first peers
//
// The Boot key exists only in memory. A later process with the same key is the same Boot, and
// continues with the credentials of the earlier one (Resume).
package admit
