package watermark

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cadre.dev/store"
)

// growth is what one caller wants to be written with a higher state.
type growth struct {
	ctx   context.Context //nolint:containedctx // of the call that waits for done
	lease store.Lease
	ops   []store.Op
	done  chan error // capacity 1
}

// Grow commits ops under the Lease together with a higher state: both are there, or
// neither is. It refuses to go on from records that went back (store.ErrStateRegression).
//
// Each growth follows from the one before, and takes a read and a write of the store. Those
// who come meanwhile go into the next one together, with one state: a cluster would else
// record no more Operations a second than the store takes such turns.
func (r *Ratchet) Grow(ctx context.Context, lease store.Lease, ops ...store.Op) error {
	own := &growth{ctx: ctx, lease: lease, ops: ops, done: make(chan error, 1)}
	r.mu.Lock()
	r.waiting = append(r.waiting, own)
	r.mu.Unlock()
	select {
	case err := <-own.done:
		return err
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		if r.leave(own) {
			return ctx.Err()
		}
		return <-own.done // it is being written
	}
	if r.leave(own) {
		r.growTogether(own, r.others(own)) //nolint:contextcheck // what is the others' too does not end with one call
	}
	return <-own.done
}

// leave takes a growth out of those who wait; false: it is not among them any more.
func (r *Ratchet) leave(one *growth) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.waiting)
	r.waiting = slices.DeleteFunc(r.waiting, func(g *growth) bool { return g == one })
	return len(r.waiting) < before
}

// others takes those who wait out, as far as they fit into one transaction with own.
func (r *Ratchet) others(own *growth) (taken []*growth) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Concat(own.lease.Fence(), []store.Op{{Kind: store.OpPutCAS, Key: store.StateKey, Value: make([]byte, stateBytes)}}, own.ops)
	r.waiting = slices.DeleteFunc(r.waiting, func(g *growth) bool {
		next := slices.Concat(all, g.ops)
		if g.lease != own.lease || g.ctx.Err() != nil || !store.Fit(next...) {
			return false
		}
		all, taken = next, append(taken, g)
		return true
	})
	return taken
}

// stateBytes is more than the record of the state has.
const stateBytes = 256

// growTogether writes all of them at once, or, where a record of one of them is another by
// now, each by itself, and tells each.
func (r *Ratchet) growTogether(own *growth, others []*growth) {
	if len(others) == 0 {
		own.done <- r.grow(own.ctx, own.lease, own.ops)
		return
	}
	all := append([]*growth{own}, others...)
	var ops []store.Op
	for _, g := range all {
		ops = append(ops, g.ops...)
	}
	// It is not for the one who has the turn to give up what is the others', too.
	err := r.grow(own.lease.Context(), own.lease, ops)
	alone := errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrFenced)
	for _, g := range all {
		if alone {
			err = r.grow(g.ctx, g.lease, g.ops)
		}
		g.done <- err
	}
}

// grow is for whoever has the turn.
func (r *Ratchet) grow(ctx context.Context, lease store.Lease, ops []store.Op) error {
	seen := r.Seen() // before the read: what was seen must be there when it is answered
	facts, index, err := store.ReadStateFacts(ctx, r.store)
	if err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	facts.Seen = seen
	next, err := store.NextState(facts)
	if err != nil {
		return err
	}
	put, err := store.Put(store.StateKey, store.StateRecord{State: next, Term: lease.Term(), At: r.now().UTC(), Elapsed: r.Elapsed(facts.Elapsed)}, index)
	if err != nil {
		return err
	}
	all := append(lease.Fence(), put)
	if err := r.store.Commit(ctx, append(all, ops...)...); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen, r.grew = max(r.seen, next), r.now()
	return nil
}
