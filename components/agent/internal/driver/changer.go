package driver

import (
	"context"
	"fmt"

	"cadre.dev/core/group"
)

// Changer is a Driver that can change the membership of its workload's set (R46-R49). Each call
// makes one change through the leader of the set and returns once the change is committed; a change
// made earlier succeeds at once. Errors are those of Driver: after ErrTransient the change may have
// happened.
//
// id is the intended incarnation, as in View.MemberIDs: a call leaves another incarnation under the
// name of slot alone. Older coordinators send no id; the call then applies to the member with that
// name.
type Changer interface {
	// Join lists slot as a member without a vote.
	Join(ctx context.Context, slot string) error
	// Promote gives slot its vote; ErrBusy while it has not caught up.
	Promote(ctx context.Context, slot, id string) error
	// Leave removes slot, which is not this member, from the list. A missing slot counts as
	// removed.
	Leave(ctx context.Context, slot, id string) error
}

// Change makes the change through d.
func Change(ctx context.Context, d Driver, change group.SetChange) error {
	c, ok := d.(Changer)
	if !ok {
		return fmt.Errorf("%w: its driver cannot change the members of the set", ErrUnsafe)
	}
	switch change.Do {
	case group.SetAdd:
		return c.Join(ctx, change.Slot)
	case group.SetPromote:
		return c.Promote(ctx, change.Slot, change.Member)
	case group.SetRemove:
		return c.Leave(ctx, change.Slot, change.Member)
	}
	return fmt.Errorf("%w: %q is no change that this agent knows", ErrUnsafe, change.Do)
}
