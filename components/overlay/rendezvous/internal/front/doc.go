// Package front serves the members of a cluster: the WebSocket of their own mailbox, and
// plain requests for members that cannot hold a WebSocket.
//
//	GET  /v1/mailbox                                  WebSocket, own mailbox
//	GET  /v1/mailbox/{cluster}/{group}/{slot}/{boot}  own mailbox, long poll
//	POST /v1/mailbox/{cluster}/{group}/{slot}/{boot}  send one envelope
//	GET  /v1/certificates/{cluster}/{group}/{slot}    Boots connected now
//	POST /v1/credentials                              STUN and TURN
//	POST /v1/revoked                                  end Boots; coordinators
//	GET  /healthz                                     200, or 503 while leaving
//
// Every request except the last needs an SVID. The front sees envelopes and names, but
// never the content of an envelope, and logs neither envelopes nor credentials.
package front
