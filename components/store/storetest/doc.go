// Package storetest has helpers for tests of and with a Store: Memory, the in-memory twin with the
// semantics of Consul; Run, the contract suite that every Store passes; and real Consul servers on
// loopback.
package storetest
