// Package connpause is one route's address in this CVM, where new connections can be made to wait:
// while leadership moves, the Pauser accepts connections and carries them on later. The client
// notices a pause instead of an error.
//
//	app ─► VIP:port ─ Pauser ─► 127.11.x.y:port ─ Envoy ─► the leader
//
// The Pauser knows no protocol. It reads a byte only once there is a connection to carry the byte to,
// carries each byte once, and leaves established connections to the workload. Package handover
// decides why and for how long connections wait.
//
//	connpause.go  the listener, pausing and resuming
//	waiting.go    one connection that waits: is its client still there
//	carry.go      one connection that is carried, both ways
package connpause
