// Package paths decides, for one Link, which of its paths carries the traffic, when each
// path is probed, when a path counts as quiet and when it is dropped. The package is
// pure: no clock, no network, no goroutine. Time is a duration since any origin that the
// caller keeps; facts come in through methods, and Tick returns the effects.
//
//	             answered                 silent
//	Probing ───────────────────► Up ◄──────────────► Quiet
//	   │ 30 s without an answer        answered        │ 30 s without an answer
//	   └──────────────► dropped ◄──────────────────────┘
//
// Only a path that was answered once is ever used. A quiet path still receives, and stays
// in use while there is no other, because most outages end. After 30 s without an answer
// the far side's consent has run out (OVL-13), and the path is dropped.
package paths
