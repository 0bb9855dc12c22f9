// Package measure measures a Link over the Session in use: round trips, and throughput.
// The package has both sides, the beginning one and the answering one; its callers decide
// which Peer may begin.
package measure
