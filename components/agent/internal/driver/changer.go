package driver

import (
	"context"
	"fmt"

	"cadre.dev/core/group"
)

// Changer is a Driver that can change who belongs to the set of its workload (R46-R49). Each
// call makes one change, through the leader of the set, and comes back once it is committed,
// or was before. Errors are those of Driver: one that is ErrTransient may have changed it.
type Changer interface {
	// Join lists slot as a member without a vote.
	Join(ctx context.Context, slot string) error
	// Promote gives slot its vote; ErrBusy while it has not caught up.
	Promote(ctx context.Context, slot string) error
	// Leave takes slot, which is not this member, off the list.
	Leave(ctx context.Context, slot string) error
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
		return c.Promote(ctx, change.Slot)
	case group.SetRemove:
		return c.Leave(ctx, change.Slot)
	}
	return fmt.Errorf("%w: %q is no change that this agent knows", ErrUnsafe, change.Do)
}
