package reconcile

import (
	"context"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// decidedKept is how long after the last decision about a Slot that is gone people can
// still ask what happened to it, and a Slot of the same name goes on where it ended.
const decidedKept = 30 * 24 * time.Hour

// goneSlots removes what outlives a Slot, long after it went. A record that cannot be
// read may be the Slot itself, so then all stay.
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
		// One that cannot be read does not say how old it is. It stays, and the lease too.
		if d := v.Decisions(ctx, slot); gone(slot) && d.Slot == slot && over(d.Last().At) {
			remove(store.DecisionsKey(slot), index)
			delete(decided, slot)
		}
	}
	for slot, lease := range v.Boots {
		// The lease remembers the highest generation, and goes last.
		if _, kept := decided[slot]; gone(slot) && !kept && !lease.Held() {
			remove(store.BootLeaseKey(slot), lease.Index)
		}
	}
	for slot, proof := range v.Proofs {
		if gone(slot) && over(proof.Value.At) {
			remove(store.ProofKey(slot), proof.Index)
		}
	}
	for slot, refusal := range v.Refusals {
		// One that was decided while the Slot went was written after it.
		if gone(slot) && over(refusal.Value.At) {
			remove(store.RefusalKey(slot), refusal.Index)
		}
	}
	return ops
}
