package reconcile

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/store"
)

// overtaken is an error while most reporting agents have seen a higher Term than this leader's.
// Either another coordinator leads, and this Lease ends in a moment. Or the records were restored
// to an older state including the Term (CTL-06): later decisions contradict a plan made from them.
func overtaken(seen, term uint64) error {
	if seen <= term {
		return nil
	}
	return fmt.Errorf("%w: most agents have seen term %d, this leader has %d: the store was restored from an older state or edited; nothing is planned until an operator says so; %s",
		store.ErrTermRegression, seen, term, store.WayOut(seen, 0))
}

// wentBack is an error when the records are older than the state that this process or most agents
// saw before, also within one Term.
func (p *pass) wentBack(seen uint64) error {
	facts := store.StateFacts{Stored: p.view.State, Raised: p.view.Recovery.State, Seen: seen, Restored: p.view.Restored.State}
	if err := facts.Regressed(); err != nil {
		return err
	}
	p.cfg.Watermark.Saw(p.view.State)
	return nil
}

// growEvery is the longest interval between two increases of the state. After a restore, the missing
// increase shows the loss of other changes, such as an admission.
const growEvery = 30 * time.Second

// keepGrowing raises the state with each Term, and when no other write raises it.
func (r *Reconciler) keepGrowing(ctx context.Context, lease store.Lease) {
	last := ""
	r.untilConfirmed(ctx, lease)
	for ctx.Err() == nil {
		err := r.cfg.Watermark.Grow(ctx, lease)
		if text := fmt.Sprint(err); err != nil && text != last && ctx.Err() == nil {
			r.log.Warn("state not raised", "error", err)
			last = text
		}
		wait(ctx, growEvery)
		for r.cfg.Watermark.Idle() < growEvery && ctx.Err() == nil {
			wait(ctx, growEvery-r.cfg.Watermark.Idle())
		}
	}
}
