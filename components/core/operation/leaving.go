package operation

import (
	"fmt"
	"time"
)

// outOfSet reports whether the member is out of its workload's set as far as the next call needs (R49). A disk is
// deleted only after its vote is removed. No disk is made for a Slot while the other members still list the old
// member. A member that would return automatically is removed after its CVM is gone.
func (op Operation) outOfSet(f Facts) (reason string, ok bool) {
	if op.Kind != Delete && op.Kind != Replace || op.Decided() && op.Kind == Replace {
		return "", true
	}
	gone := op.isGone(f)
	if !gone && !f.LeavesAlive {
		return "", true
	}
	switch f.Set {
	case SetUnasked, SetAbsent:
		return "", true
	case SetListed:
		if op.Set.LeavesAs != "" && f.Member != "" && f.Member != op.Set.LeavesAs {
			return fmt.Sprintf("the set lists %s as member %s, and the one that is to leave was %s: somebody else put it there", op.Slot, f.Member, op.Set.LeavesAs), false
		}
		return "waits until the other members take " + op.Slot + " out of their set", false
	case SetUnknown:
	}
	return "waits to know who belongs to the set of " + op.Slot, false
}

// Leaving reports that the other members must remove the Slot from their set now. A replaced member joins under the
// same name and is not removed.
func (op Operation) Leaving() bool {
	return op.Set.Leaves && !op.Phase.Ended() && !op.Call.Makes()
}

// isOut: the member was ordered to leave, it left as far as known, and its CVM still exists. This member never serves
// again in its present state. Only the step can repair it, so the step stays open.
func (op Operation) isOut(f Facts) bool {
	out := f.Set == SetAbsent || f.Set == SetUnknown
	return out && op.Leaving() && len(op.Call.Applied) == 0 && op.CVM.VMUUID != ""
}

// leave records that the other members must remove the member from their set. From then on the step cannot be called
// off: the member may already be out.
func (op Operation) leave(f Facts, now time.Time) Operation {
	if f.Set == SetListed && !op.Set.Leaves {
		op.Times.HealthyBy = now.Add(f.Limits.Healthy)
	}
	return op.leaveAs(f)
}

// leaveAs records the name of the leaving member once it is known: the order names that member.
func (op Operation) leaveAs(f Facts) Operation {
	if f.Set != SetListed {
		return op
	}
	op.Set.Leaves = true
	if op.Set.LeavesAs == "" {
		op.Set.LeavesAs = f.Member
	}
	return op
}
