package rollout

// givenUpDisk reports that an operator gave up the disk of the Slot.
func (w *world) givenUpDisk(slot string) bool {
	return w.found.givenUp.of(func() map[string]bool {
		all := make(map[string]bool, len(w.obs.DeleteDisks))
		for _, given := range w.obs.DeleteDisks {
			all[given] = true
		}
		return all
	})[slot]
}

// holdsOfDisk: the planner removes no disk without an operator's consent. A member that has left its set by that
// consent is removed, even if the Slot is wanted again. The Slot then gets a new disk.
func (w *world) holdsOfDisk(c candidate, _ evaluation) []Hold {
	slot := c.m.slot
	if w.ending() {
		return nil // the deletion has --delete-disks, with the name of the group
	}
	if c.m.record.Extra {
		return nil // the Slot existed for a rollout only: its disk holds no data of the group
	}
	var holds []Hold
	if disk := w.spec.PreservedDisk(c.m.ordinal); disk != "" {
		return append(holds, hold(HoldPreservedState,
			"removing %s would delete its disk %q, which the spec preserves; remove preserved_state to allow it, or let the spec have the slot again", slot, disk))
	}
	if !c.left && !w.givenUpDisk(slot) {
		holds = append(holds, hold(HoldDeleteDisks,
			"removing %s deletes its disk; give it up with --delete-disks, or let the spec have the slot again", slot))
	}
	return holds
}
