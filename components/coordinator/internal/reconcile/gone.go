package reconcile

import (
	"context"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// decidedKept is how long the decisions about a removed Slot are kept after the last decision.
// Within that time operators can read them, and a Slot of the same name continues from them.
const decidedKept = 30 * 24 * time.Hour

// goneSlots removes the records that outlive a Slot, long after its removal. An unreadable record
// may be the Slot itself, so then all records stay.
func (r *Reconciler) goneSlots(ctx context.Context, v *view.View) []store.Op {
	if v.BadBelow(store.SlotsPrefix, store.PolicyPrefix, store.AdmissionsPrefix) != nil {
		return nil
	}
	gone := func(slot string) bool {
		_, is := v.Slots[slot]
		_, allowed := v.Policies[slot]
		_, admitted := v.Admissions[slot]
		return !is && !allowed && !admitted
	}
	over := func(at time.Time) bool { return r.cfg.Now().Sub(at) > decidedKept }
	var ops []store.Op
	remove := func(key string, index uint64) {
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: key, Index: index})
	}
	decided := v.Decided()
	for slot, index := range decided {
		// Unreadable decisions have no known age. They stay, and so does the lease.
		if d := v.Decisions(ctx, slot); gone(slot) && d.Slot == slot && over(d.Last().At) {
			remove(store.DecisionsKey(slot), index)
			delete(decided, slot)
		}
	}
	for slot, lease := range v.Boots {
		// The lease holds the highest generation, and goes last.
		if _, kept := decided[slot]; gone(slot) && !kept && !lease.Leased() {
			remove(store.BootLeaseKey(slot), lease.Index)
		}
	}
	for slot, proof := range v.Proofs {
		if gone(slot) && over(proof.Value.At) {
			remove(store.ProofKey(slot), proof.Index)
		}
	}
	for slot, machine := range v.Machines {
		if gone(slot) {
			remove(store.MachineKey(slot), machine.Index)
		}
	}
	for slot, refusal := range v.Refusals {
		// A refusal may have been written after the removal of its Slot.
		if gone(slot) && over(refusal.Value.At) {
			remove(store.RefusalKey(slot), refusal.Index)
		}
	}
	return ops
}
