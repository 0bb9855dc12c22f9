// Package lifecycle carries out the leader's orders for this Slot: drain before a stop, return to
// service, post-launch work.
//
//	order (operation, verb, attempt)
//	   │ finished before? ──yes──► its stored result is reported again
//	   ▼
//	DRAIN:        PRE_TERMINATE hooks in order ─► hand leadership over ─► driver drain ─► DONE
//	CANCEL_DRAIN: stop the running step, driver returns to service ─► DONE
//	POST_LAUNCH:  POST_LAUNCH hooks in order ─► DONE
//
// A hook ends with CONTINUE, ABANDON (step ABORTED, the Slot returns to service) or HOLD (step
// HELD, open until it is completed or the order changes). Finished results are stored on the
// preserved disk, so that the agent answers an order repeated after a reboot without repeating the
// work.
package lifecycle
