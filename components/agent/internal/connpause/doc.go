// Package connpause is one route's address in this CVM, where new connections can be made to
// wait: while leadership moves they are accepted and not carried on, so that who dials then
// notices a pause instead of an error.
//
//	app ─► VIP:port ─ Gate ─► 127.11.x.y:port ─ Envoy ─► the leader
//
// It knows no protocol. It looks at no byte before there is a connection to carry it to,
// carries each byte once, and leaves connections that stand to end as the workload ends
// them. What the waiting is for, and when it is over, is for package handover to say.
//
//	gate.go   the listener, holding and releasing
//	held.go   one connection that waits: is its client still there
//	carry.go  one connection that is carried, both ways
package connpause
