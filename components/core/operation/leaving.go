package operation

import (
	"fmt"
	"time"
)

// SetWord is what the workload's own set says of a Slot's member.
type SetWord string

const (
	// SetUnasked: nobody changes the set of such a workload.
	SetUnasked SetWord = ""
	// SetListed: it belongs to it, with a vote or without.
	SetListed SetWord = "listed"
	// SetAbsent: it does not.
	SetAbsent SetWord = "absent"
	// SetUnknown: the members do not tell, or not the same.
	SetUnknown SetWord = "unknown"
)

// outOfSet reports whether the member is out of its workload's set as far as the next
// call needs (R49): a disk goes only after its vote, and none is made for a Slot that the
// others still know with what was on the last one. A member that would come back by
// itself is taken out once its CVM is gone.
func (op Operation) outOfSet(f Facts) (reason string, ok bool) {
	if op.Kind != Delete && op.Kind != Replace || op.Decided() && op.Kind == Replace {
		return "", true
	}
	gone := op.CVM.gone(f.Platform)
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

// Leaving reports that the others are to take the Slot out of their set now. A member that is
// made anew joins under the same name, and is not meant.
func (op Operation) Leaving() bool {
	return op.Set.Leaves && !op.Phase.Ended() && !op.Call.makes()
}

// isOut: the member was told to leave, as far as anybody knows it did, and its CVM is still there. As it
// is it never serves again: the step is the only one that helps it, so it neither fails nor ends.
func (op Operation) isOut(f Facts) bool {
	out := f.Set == SetAbsent || f.Set == SetUnknown
	return out && op.Leaving() && len(op.Call.Applied) == 0 && op.CVM.VMUUID != ""
}

// overdueInSet fails at the healthy deadline a step whose member is in its set all the same. One that is out
// of it has the whole time anew, for when it is listed again.
func (op Operation) overdueInSet(f Facts, now time.Time) (Operation, []Effect) {
	if op.isOut(f) {
		if !now.Before(op.Times.HealthyBy) {
			op.Times.HealthyBy = now.Add(f.Limits.Healthy)
		}
		return op, nil
	}
	return op.overdue(f, now)
}

// leave records that the others are to take the member out of their set. From here on it
// cannot be called off: the member may be out already.
func (op Operation) leave(f Facts, now time.Time) Operation {
	if f.Set == SetListed && !op.Set.Leaves {
		op.Times.HealthyBy = now.Add(f.Limits.Healthy)
	}
	return op.leaveAs(f)
}

// leaveAs records who is to leave, once it is known: the order names that one.
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
