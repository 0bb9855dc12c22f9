package driver

import (
	"context"
	"fmt"

	"cadre.dev/core/group"
)

// Changer is a Driver that can change who belongs to the set of its workload (R46-R49). Each
// call makes one change, through the leader of the set, and comes back once it is committed,
// or was before. Errors are those of Driver: one that is ErrTransient may have changed it.
//
// id is the incarnation that is meant, as View.MemberIDs told it: another one under the name
// of slot is left alone. Coordinators that do not know of it give none; then it is whoever
// has the name.
type Changer interface {
	// Join lists slot as a member without a vote.
	Join(ctx context.Context, slot string) error
	// Promote gives slot its vote; ErrBusy while it has not caught up.
	Promote(ctx context.Context, slot, id string) error
	// Leave takes slot, which is not this member, off the list. One that is not there any
	// more has left.
	Leave(ctx context.Context, slot, id string) error
}

// Change makes the change through d.
func Change(ctx context.Context, d Driver, change group.SetChange) error {
	c, ok := d.(Changer)
	if !ok {
		return fmt.Errorf("%w: its driver cannot change who belongs to the set", ErrUnsafe)
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
