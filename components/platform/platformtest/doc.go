// Package platformtest has the contract suite that every platform driver
// passes (Run), and a small in-memory Phala-like API with faults (Fake) on
// which it runs here. The local cloud is held to the same suite.
package platformtest
