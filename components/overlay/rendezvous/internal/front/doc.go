// Package front is what members of a cluster speak with: the WebSocket of their
// own mailbox, and plain requests for those that cannot hold one.
//
//	GET  /v1/mailbox                                  WebSocket, own mailbox
//	GET  /v1/mailbox/{cluster}/{group}/{slot}/{boot}  own mailbox, long poll
//	POST /v1/mailbox/{cluster}/{group}/{slot}/{boot}  send one envelope
//	GET  /v1/certificates/{cluster}/{group}/{slot}    Boots connected now
//	POST /v1/credentials                              STUN and TURN
//	POST /v1/revoked                                  end Boots; coordinators
//	GET  /healthz                                     200, or 503 while leaving
//
// Every request but the last needs an SVID. The front sees envelopes and names,
// never what is in an envelope, and logs neither envelopes nor credentials.
package front
