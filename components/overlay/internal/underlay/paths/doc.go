// Package paths decides, for one Link, which of its paths carries the traffic,
// when each is probed, when one has gone quiet and when one is given up. It is
// pure: no clock, no network, no goroutine. Time is a duration since any origin
// that the caller keeps; facts come in through methods, and Tick says what to do.
//
//	             answered                 silent
//	Probing ───────────────────► Up ◄──────────────► Quiet
//	   │ 30 s without an answer        answered        │ 30 s without an answer
//	   └──────────────► dropped ◄──────────────────────┘
//
// A path that was never answered is never used. One that went quiet is still
// listened to, and is used while there is no other, because an outage that ends
// is the commonest kind; after 30 s without an answer the far side's consent has
// run out (OVL-13) and the path is dropped.
package paths
