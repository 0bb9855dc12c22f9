// Package dstackverifier asks a dstack-verifier, a service of its own, what it
// makes of evidence. It checks the answer as one of a stranger: one strict form,
// every verdict present and true, nothing empty. It judges no freshness and knows
// no Slot; it is a second opinion beside attest.Verifier, never the only one.
package dstackverifier
