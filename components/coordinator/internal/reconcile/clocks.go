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
	// apart is the highest tolerated distance between the previous leader's status and this
	// leader's clock. A takeover takes less. A longer distance means that the clocks differ, or
	// that the group had no leader meanwhile.
	apart = time.Minute
	// ahead is how far in the future a recorded time may lie: clocks always differ a little.
	ahead = 2 * time.Second
)

// settleClocks converts the recorded times to this leader's clock, after a takeover and after a
// change of this leader's own clock. Without the conversion, a leader whose clock is minutes ahead
// fails a step at takeover. It repeats a call whose effect has still to show. If the previous clock
// was ahead, a Slot stays unavailable for the difference. settleClocks writes once, and not at all
// where the clocks agree.
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

// led is the previous leader, and its last time by its own clock.
type led struct {
	term uint64
	at   time.Time
}

// lastLed reads the previous leader from the state record, which grows while a coordinator leads.
// The read precedes this leader's first write of that record.
func (r *Reconciler) lastLed(ctx context.Context, lease store.Lease) led {
	state, _, err := store.Read[store.StateRecord](ctx, r.cfg.Store, store.StateKey)
	if err != nil || state.Term >= lease.Term() {
		return led{}
	}
	return led{state.Term, state.At}
}

// takeClocksOver moves the relevant times by the distance between the previous leader's status and
// now. The same write sets the Term of the status, so the move happens once.
func (p *pass) takeClocksOver(ctx context.Context) (changed bool, err error) {
	status := p.view.Statuses[p.name]
	at := status.Value.At
	if p.before.term == status.Value.Term && p.before.at.After(at) {
		// The status is as old as its last change; the leader that wrote it led for longer.
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

// followClock moves the relevant times if this leader's own clock was set since its last pass.
func (p *pass) followClock(ctx context.Context) (changed bool, err error) {
	off := p.cfg.Now().Round(0).Sub(p.began.Round(0)) - time.Since(p.began)
	status := p.view.Statuses[p.name]
	switch {
	case !p.pace.clocked:
		p.pace.clocked, p.pace.off = true, off
		return false, nil
	case !p.pace.movedAt.IsZero() && status.Value.At.Equal(p.pace.movedAt):
		// The move is written, but its answer was lost: do not move again.
		p.pace.off, p.pace.movedAt = p.pace.movedTo, time.Time{}
	}
	by := off - p.pace.off
	if by.Abs() <= ahead || status.Index == 0 {
		return false, nil
	}
	p.pace.movedAt, p.pace.movedTo = p.now, off
	return true, p.moveClocks(ctx, by)
}

// counts reports whether some wait depends on a time in op's record: op is open, or op ended before
// its call had to show. Writing op makes it the newest of its Slot by index. An operation with a
// successor therefore stays as it is, or it would hide how the successor ended.
func (p *pass) counts(op operation.Operation) bool {
	if !op.Phase.Ended() {
		return true
	}
	for _, o := range p.view.OperationsOf(op.Slot) {
		if o.Value.Phase.Ended() {
			return o.Value.ID == op.ID && op.Before.PendingBoot.To != ""
		}
	}
	return false
}

// moveClocks moves the relevant times of the group together with its status, so that the move
// happens once. Some writes may not fit into one transaction with the status. A crash in between
// must lengthen waits and never shorten them. For a move forward they precede the status: the
// successor moves all times again, and the move ends at now. For a move back they follow it.
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
	p.log.Warn("recorded clocks were moved: a leader's clock differs or was set, or the cluster had no leader", "by", by.Round(time.Second), "records", len(ops)-1)
	return nil
}

// puts collects writes, and the error of the last write that could not be encoded.
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

// counting writes the relevant Operations, the rollout and the unavailable Slots with their clocks
// moved.
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

// slotClocks returns the times in a Slot's record that a wait depends on while the Slot is
// unavailable. The original Heals stay unchanged.
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

// move adds by to a time that is set, and caps the result at now.
func move(at *time.Time, by time.Duration, now time.Time) {
	if at.IsZero() {
		return
	}
	if *at = at.Add(by); at.After(now) {
		*at = now
	}
}

// pullBack rewrites times that lie in the future: this leader's clock was set back, or an earlier
// leader's clock was ahead.
func (p *pass) pullBack(ctx context.Context) (changed bool, err error) {
	var w puts
	limit := p.now.Add(ahead)
	for _, record := range p.view.SlotsOf(p.name) {
		if pulled(limit, p.now, append(slotClocks(&record), &record.AvailableSince)...) {
			w.add(store.Put(store.SlotKey(p.name, record.Slot), record, p.view.Slots[record.Slot].Index))
		}
		// Only the newest Operation counts: it is open, or its Slot waits after its end.
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

// pulled sets the times after limit to now, and reports whether it set any.
func pulled(limit, now time.Time, times ...*time.Time) (changed bool) {
	for _, at := range times {
		if at.After(limit) {
			*at, changed = now, true
		}
	}
	return changed
}
