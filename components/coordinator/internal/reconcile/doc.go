// Package reconcile is the leader's loop, one per group, run only under the Lease:
//
//	observe ──► plan ──► record ──► act ──► wait
//	   ▲       (pure)   (fenced)  (operate)   │ a change, or plan.Wake
//	   └──────────────────────────────────────┘
//
// Each pass starts from the store, the platform and the agents' reports, and never from the memory
// of an earlier pass. A successor therefore continues at any point.
package reconcile
