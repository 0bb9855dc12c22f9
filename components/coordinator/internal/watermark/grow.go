package watermark

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cadre.dev/store"
)

// growth is one caller's writes for the next state.
type growth struct {
	ctx   context.Context //nolint:containedctx // of the call that waits for done
	lease store.Lease
	ops   []store.Op
	done  chan error // capacity 1
}

// Grow commits ops under the Lease together with a higher state: both or neither. It rejects
// records that went back (store.ErrStateRegression).
//
// Each growth depends on the previous one, and takes a read and a write of the store. Callers that
// wait meanwhile share the next transaction with one state. Otherwise the duration of a transaction
// would limit the Operations per second of the cluster.
func (r *Watermark) Grow(ctx context.Context, lease store.Lease, ops ...store.Op) error {
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
		return <-own.done // the write has begun
	}
	if r.leave(own) {
		r.growTogether(own, r.others(own)) //nolint:contextcheck // the end of one call must not end the others' growths
	}
	return <-own.done
}

// leave removes a growth from the waiting ones; false: it is not waiting any more.
func (r *Watermark) leave(one *growth) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.waiting)
	r.waiting = slices.DeleteFunc(r.waiting, func(g *growth) bool { return g == one })
	return len(r.waiting) < before
}

// others takes the waiting growths that fit into one transaction with own.
func (r *Watermark) others(own *growth) (taken []*growth) {
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

// stateBytes is an upper bound of the state record's size.
const stateBytes = 256

// growTogether writes all growths at once and reports the result to each. On a conflict in one of
// them it writes each separately.
func (r *Watermark) growTogether(own *growth, others []*growth) {
	if len(others) == 0 {
		own.done <- r.grow(own.ctx, own.lease, own.ops)
		return
	}
	all := append([]*growth{own}, others...)
	var ops []store.Op
	for _, g := range all {
		ops = append(ops, g.ops...)
	}
	// The end of one caller's context must not fail the others' growths.
	err := r.grow(own.lease.Context(), own.lease, ops)
	alone := errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrFenced)
	for _, g := range all {
		if alone {
			err = r.grow(g.ctx, g.lease, g.ops)
		}
		g.done <- err
	}
}

// grow runs in the caller that has the turn.
func (r *Watermark) grow(ctx context.Context, lease store.Lease, ops []store.Op) error {
	seen := r.Seen() // before the read, whose answer must include everything seen before
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
