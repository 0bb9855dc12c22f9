// Package lifecycle carries out what the leader orders for this Slot: drain
// before a stop, return to service, post-launch work.
//
//	order (operation, verb, attempt)
//	   │ finished before? ──yes──► its stored result is reported again
//	   ▼
//	DRAIN:        PRE_TERMINATE hooks in order ─► hand leadership over ─► driver drain ─► DONE
//	CANCEL_DRAIN: stop what runs, driver returns to service ─► DONE
//	POST_LAUNCH:  POST_LAUNCH hooks in order ─► DONE
//
// A hook ends with CONTINUE, ABANDON (step ABORTED, the Slot returns to service)
// or HOLD (step HELD, open until somebody completes it or the order changes).
// Finished results are on the preserved disk, so that an order which is repeated
// after a reboot is answered, not repeated.
package lifecycle
