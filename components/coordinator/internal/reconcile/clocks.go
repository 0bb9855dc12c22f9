package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

const (
	// apart is how far the status of the leader before may lie from this leader's clock. A
	// takeover needs less: then the clocks differ, or nobody led meanwhile.
	apart = time.Minute
	// ahead is how far in the future a recorded time may lie: no two clocks are the same.
	ahead = 2 * time.Second
)

// settleClocks makes the recorded times ones of this leader's clock. Recorded clocks go on
// where the leader before left them, and where this leader's own clock was set: without that a
// step fails at the takeover by a leader whose clock is some minutes ahead, a call is repeated
// whose effect has still to show, and a Slot is not available for as long as the clock before
// was. It writes once, and nothing where the clocks agree.
func (p *pass) settleClocks(ctx context.Context) (changed bool, err error) {
	if changed, err := p.countEnds(ctx); err != nil || changed {
		return changed, err
	}
	if changed, err := p.takeClocksOver(ctx); err != nil || changed {
		return changed, err
	}
	if changed, err := p.followClock(ctx); err != nil || changed {
		return changed, err
	}
	return p.pullBack(ctx)
}

// led is which leader there was before, and when it was there last by its own clock.
type led struct {
	term uint64
	at   time.Time
}

// lastLed tells it by the state, which grows while somebody leads. It is read before this
// leader lets it grow.
func (r *Reconciler) lastLed(ctx context.Context, lease store.Lease) led {
	state, _, err := store.Read[store.StateRecord](ctx, r.cfg.Store, store.StateKey)
	if err != nil || state.Term >= lease.Term() {
		return led{}
	}
	return led{state.Term, state.At}
}

// takeClocksOver moves what counts by what lies between the status of the leader before
// and now, together with the Term of the status, so that it is done once.
func (p *pass) takeClocksOver(ctx context.Context) (changed bool, err error) {
	status := p.view.Statuses[p.name]
	at := status.Value.At
	if p.before.term == status.Value.Term && p.before.at.After(at) {
		// The status is as old as its news; the leader that wrote it lived on.
		at = p.before.at
	}
	if status.Index == 0 || status.Value.Term == p.lease.Term() || at.IsZero() {
		return false, nil
	}
	by := p.now.Sub(at)
	if by.Abs() <= apart {
		return false, nil
	}
	return true, p.moveClocks(ctx, by)
}

// followClock moves what counts when this leader's own clock was set since its last look.
func (p *pass) followClock(ctx context.Context) (changed bool, err error) {
	off := p.cfg.Now().Round(0).Sub(p.began.Round(0)) - time.Since(p.began)
	status := p.view.Statuses[p.name]
	switch {
	case !p.pace.clocked:
		p.pace.clocked, p.pace.off = true, off
		return false, nil
	case !p.pace.movedAt.IsZero() && status.Value.At.Equal(p.pace.movedAt):
		// They were moved, though the answer to that was lost: not once more.
		p.pace.off, p.pace.movedAt = p.pace.movedTo, time.Time{}
	}
	by := off - p.pace.off
	if by.Abs() <= ahead || status.Index == 0 {
		return false, nil
	}
	p.pace.movedAt, p.pace.movedTo = p.now, off
	return true, p.moveClocks(ctx, by)
}

// counts reports that something waits for a time in op's record: it is open, or ended before its
// call had to show. What is written anew is the newest of its Slot by that: one that others came after stays as
// it is, or it would hide how they ended.
func (p *pass) counts(op operation.Operation) bool {
	if !op.Phase.Ended() {
		return true
	}
	for _, o := range p.view.OperationsOf(op.Slot) {
		if o.Value.Phase.Ended() {
			return o.Value.ID == op.ID && op.Phase == operation.Superseded && op.Call.Number > 0
		}
	}
	return false
}

// moveClocks moves what counts of the group together with its status, so that it is done once.
// What does not fit into one transaction with it goes where a death in between makes waits longer
// and never shorter: before the status, by which the successor moves all once more, where times
// move on, which ends at now; after it where they move back.
func (p *pass) moveClocks(ctx context.Context, by time.Duration) error {
	status := p.view.Statuses[p.name]
	after := truncate.Status(status.Value)
	after.Term, after.At = p.lease.Term(), p.now
	put, err := store.Put(store.GroupStatusKey(p.name), after, status.Index)
	if err != nil {
		return err
	}
	counting, err := p.counting(by)
	if err != nil {
		return err
	}
	ops := slices.Insert(counting, 0, put)
	if by > 0 {
		ops = append(ops[1:], put)
	}
	for batch := range store.Batches(p.lease.Fence(), ops) {
		if err := p.commit(ctx, batch...); err != nil {
			return fmt.Errorf("move recorded clocks: %w", err)
		}
	}
	p.log.Warn("recorded clocks were moved: a leader's clock differs or was set, or nobody led", "by", by.Round(time.Second), "records", len(ops)-1)
	return nil
}

// puts are writes, and what is wrong with the last one that cannot be.
type puts struct {
	ops []store.Op
	err error
}

func (w *puts) add(op store.Op, err error) {
	if err != nil {
		w.err = err
		return
	}
	w.ops = append(w.ops, op)
}

// counting writes the Operations that count, the rollout and the Slots that are not available
// with their clocks moved.
func (p *pass) counting(by time.Duration) ([]store.Op, error) {
	var w puts
	for _, id := range slices.Sorted(maps.Keys(p.view.Operations)) {
		if o := p.view.Operations[id]; o.Value.Group == p.name && p.counts(o.Value) {
			w.add(store.Put(store.OperationKey(id), truncate.Operation(movedOperation(o.Value, by, p.now)), o.Index))
		}
	}
	if all := p.view.RolloutsOf(p.name); len(all) > 0 {
		r := all[0]
		move(&r.Value.ProgressAt, by, p.now)
		move(&r.Value.PausedAt, by, p.now)
		w.add(store.Put(store.RolloutKey(r.Value.ID), truncate.Rollout(r.Value), r.Index))
	}
	for _, record := range p.view.SlotsOf(p.name) {
		if record.UnavailableSince.IsZero() {
			continue
		}
		for _, at := range slotClocks(&record) {
			move(at, by, p.now)
		}
		w.add(store.Put(store.SlotKey(p.name, record.Slot), record, p.view.Slots[record.Slot].Index))
	}
	return w.ops, w.err
}

// slotClocks are the times in a Slot's record that something waits for while it is not
// available. The record's own Heals stay as they are.
func slotClocks(record *group.SlotRecord) []*time.Time {
	clocks := []*time.Time{&record.UnavailableSince, &record.SilenceFrom, &record.MissedSince, &record.DownSince}
	if record.Heals != nil {
		heals := *record.Heals
		record.Heals = &heals
		clocks = append(clocks, &heals.LastAt)
	}
	return clocks
}

// movedOperation is op with its clocks moved. The platform's own times stay.
func movedOperation(op operation.Operation, by time.Duration, now time.Time) operation.Operation {
	for _, at := range op.Clocks() {
		move(at, by, now)
	}
	for _, at := range []*time.Time{&op.Times.DrainBy, &op.Times.HealthyBy} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	op.Entered = maps.Clone(op.Entered)
	for phase, at := range op.Entered {
		move(&at, by, now)
		op.Entered[phase] = at
	}
	return op
}

// move adds by to a time that is set, but lets none lie in the future.
func move(at *time.Time, by time.Duration, now time.Time) {
	if at.IsZero() {
		return
	}
	if *at = at.Add(by); at.After(now) {
		*at = now
	}
}

// pullBack writes times anew that lie in the future: this leader's clock was set back, or
// a clock before was ahead.
func (p *pass) pullBack(ctx context.Context) (changed bool, err error) {
	var w puts
	limit := p.now.Add(ahead)
	for _, record := range p.view.SlotsOf(p.name) {
		if pulled(limit, p.now, append(slotClocks(&record), &record.AvailableSince)...) {
			w.add(store.Put(store.SlotKey(p.name, record.Slot), record, p.view.Slots[record.Slot].Index))
		}
		// The newest one alone counts: an open one, or the one after which a Slot rests.
		if last := p.view.OperationsOf(record.Slot); len(last) > 0 {
			if o := last[0].Value; pulledOperation(limit, p.now, &o) {
				w.add(store.Put(store.OperationKey(o.ID), truncate.Operation(o), last[0].Index))
			}
		}
	}
	if all := p.view.RolloutsOf(p.name); len(all) > 0 {
		if r := all[0].Value; pulled(limit, p.now, &r.StartedAt, &r.ProgressAt, &r.PausedAt, &r.EndedAt) {
			w.add(store.Put(store.RolloutKey(r.ID), truncate.Rollout(r), all[0].Index))
		}
	}
	if w.err != nil {
		return false, w.err
	}
	for batch := range store.Batches(p.lease.Fence(), w.ops) {
		if err := p.commit(ctx, batch...); err != nil {
			return changed, fmt.Errorf("pull recorded times back: %w", err)
		}
		changed = true
	}
	return changed, nil
}

func pulledOperation(limit, now time.Time, op *operation.Operation) bool {
	changed := pulled(limit, now, append(op.Clocks(), &op.Times.Ended)...)
	for phase, at := range op.Entered {
		if at.After(limit) {
			op.Entered = maps.Clone(op.Entered)
			op.Entered[phase] = now
			changed = true
		}
	}
	return changed
}

// pulled sets the times after limit to now, and reports whether there was one.
func pulled(limit, now time.Time, times ...*time.Time) (changed bool) {
	for _, at := range times {
		if at.After(limit) {
			*at, changed = now, true
		}
	}
	return changed
}
