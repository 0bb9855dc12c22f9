// Package statement defines the statements that quotes commit to: the two parties, the purpose and
// the connection. A statement has exactly one encoding:
//
//	version, 2 bytes big-endian
//	purpose tag, then each field in the order of the struct:
//	    length, 4 bytes big-endian, and the bytes
//
// Decode rejects every other byte string, so two readers cannot read two things from one (ATT-24).
// The quote's report data is SHA-512(tag || 0x00 || encoding); the tags differ from each other and
// from dstack's tags for its own quotes ("ratls-cert:", "app-data:"), so no quote serves
// two purposes (ATT-14).
//
// Package core/policy decides whether a statement agrees with the Evidence it comes with.
package statement
