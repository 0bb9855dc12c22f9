package reconcile

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/store"
)

// overtaken is an error while most agents that report have seen a higher Term than
// this leader's. Either another one leads, and this Lease is over in a moment, or the
// records were put back to an older state, Term and all (CTL-06): what would be planned
// from them was decided otherwise since.
func overtaken(seen, term uint64) error {
	if seen <= term {
		return nil
	}
	return fmt.Errorf("%w: most agents have seen term %d, this leader has %d: the store was restored from an older state or edited; nothing is planned until an operator says so; %s",
		store.ErrTermRegression, seen, term, store.WayOut(seen, 0))
}

// wentBack is an error when the records that were just read are older than what was seen
// of them before, within one Term too: by this process, or by most agents.
func (p *pass) wentBack(seen uint64) error {
	facts := store.StateFacts{Stored: p.view.State, Raised: p.view.Recovery.State, Seen: seen}
	if err := facts.Regressed(); err != nil {
		return err
	}
	p.cfg.Ratchet.Saw(p.view.State)
	return nil
}

// growEvery is how often the state grows at least: what else changes meanwhile, such as an
// admission, is then missed after a restore.
const growEvery = 30 * time.Second

// keepGrowing lets the state grow with each Term, and when nothing else does.
func (r *Reconciler) keepGrowing(ctx context.Context, lease store.Lease) {
	last := ""
	r.untilConfirmed(ctx, lease)
	for ctx.Err() == nil {
		err := r.cfg.Ratchet.Grow(ctx, lease)
		if text := fmt.Sprint(err); err != nil && text != last && ctx.Err() == nil {
			r.log.Warn("state not raised", "error", err)
			last = text
		}
		wait(ctx, growEvery)
		for r.cfg.Ratchet.Idle() < growEvery && ctx.Err() == nil {
			wait(ctx, growEvery-r.cfg.Ratchet.Idle())
		}
	}
}
