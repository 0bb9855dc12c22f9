// Package dstackverifier sends evidence to a dstack-verifier, a separate service, for a second
// opinion. The package treats the answer as untrusted: one strict form, every verdict present and
// true, no empty field. It judges no freshness and knows no Slot; it is used in addition to
// attest.Verifier, never alone.
package dstackverifier
