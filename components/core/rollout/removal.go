package rollout

import "cmp"

// holdsOfRemoval: a Slot is removed only while all others are available. An update that began during a removal would
// have its drain called off (R104).
func (w *world) holdsOfRemoval(c candidate, l evaluation) []Hold {
	if c.m.open != nil {
		return nil // the Slot already moves to another Revision
	}
	if m := cmp.Or(w.tally.removing, l.taken.removing); m != nil {
		return []Hold{hold(HoldRemovalInProgress, "waits for the removal of %s", m.slot)}
	}
	return nil
}
