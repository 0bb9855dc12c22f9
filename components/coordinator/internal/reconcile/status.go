package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/internal/dedup"
	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// tickingEvery is the pace of status writes that change only numbers, such as the lag of a member.
const tickingEvery = 2 * time.Second

// report writes the status and the states of the Slots where they changed. A failed write is
// reported and retried by the next pass: acting never waits for a report. The error means that this
// leader may not write at all.
func (p *pass) report(ctx context.Context) error {
	status, problems := p.statusOps(ctx)
	slots, slotProblems := p.slotStatusOps(len(status) > 0)
	problems = append(problems, slotProblems...)
	for batch := range store.Batches(p.lease.Fence(), slices.Concat(status, slots)) {
		if p.statusTried {
			p.rest = append(p.rest, batch)
			continue
		}
		p.statusTried = true
		err := p.commitStates(ctx, batch)
		if err != nil && !errors.Is(err, store.ErrFenced) && len(status) > 0 && len(batch) > len(status) {
			// Decisions rest on the status, and none on the states of the Slots.
			err = errors.Join(err, p.commit(ctx, status...))
		}
		problems = append(problems, err)
	}
	return p.unreported(ctx, errors.Join(problems...))
}

// reportRest writes the remaining transactions of the report after acting.
func (p *pass) reportRest(ctx context.Context) error {
	if len(p.rest) == 0 {
		return nil
	}
	problems := []error{p.unrecorded}
	for _, batch := range p.rest {
		problems = append(problems, p.commitStates(ctx, batch))
	}
	return p.unreported(ctx, errors.Join(problems...))
}

// commitStates writes ops, and counts the changed states of the Slots among them.
func (p *pass) commitStates(ctx context.Context, ops []store.Op) error {
	if err := p.commit(ctx, ops...); err != nil {
		return err
	}
	for _, op := range ops {
		if after, is := p.states[op.Key]; is {
			p.cfg.Metrics.StateWritten(p.view.Instances[after.Slot].Value, after)
		}
	}
	return nil
}

// unreported records why a part of the report could not be written; nil: all was written.
func (p *pass) unreported(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrFenced):
		return err
	}
	text := ""
	if p.unrecorded = err; err != nil {
		text = truncate.Line(err.Error())
	}
	p.mu.Lock()
	before := p.silent[p.name]
	p.silent[p.name] = text
	p.mu.Unlock()
	if text != "" && text != before && !errors.Is(err, store.ErrConflict) {
		p.log.Error("status not recorded; the group is run all the same", "error", text)
	}
	return nil
}

// ConditionReported is false while a part of a group's status cannot be written.
const ConditionReported = "Reported"

// statusOps write a changed status. Its At is the time of the change.
func (p *pass) statusOps(ctx context.Context) (ops []store.Op, problems []error) {
	before := p.view.Statuses[p.name]
	before.Value.Instances = nil
	after := p.plan.Status
	after.Group, after.ObservedIndex = p.name, p.view.Specs[p.name].Index
	if c, ok := p.unexplainedMembers(p.name, p.now); ok {
		after.Conditions = withCondition(before.Value.Conditions, after.Conditions, c)
	}
	if lost, all := p.disksLost(); all {
		after.Conditions = withCondition(before.Value.Conditions, after.Conditions, lost)
		after.Message = lost.Message
	}
	if p.held != nil {
		after.Message = p.held.message
		after.Conditions = withCondition(before.Value.Conditions, after.Conditions, p.held.condition)
		_, after.Paused = p.view.InEffect(store.OverridePause, p.name, p.now)
	}
	if conflict, found := p.bootConflict(ctx); found {
		after.Conditions = withCondition(before.Value.Conditions, after.Conditions, conflict)
	}
	for _, machines := range []func() (group.Condition, bool){p.tolerated, p.expectedOutOfDate, p.sharedMachines, p.changedMachines} {
		if condition, found := machines(); found {
			after.Conditions = withCondition(before.Value.Conditions, after.Conditions, condition)
		}
	}
	p.mu.Lock()
	silent := p.silent[p.name]
	p.mu.Unlock()
	if silent != "" {
		after.Conditions = withCondition(before.Value.Conditions, after.Conditions, group.Condition{
			Type: ConditionReported, Reason: "RECORD_NOT_WRITTEN", Message: silent, Since: p.now,
		})
	}
	after = truncate.Status(after)
	after.Term, after.At = before.Value.Term, before.Value.At
	if before.Index != 0 && before.Value.Term == p.lease.Term() {
		// A time ahead of this clock is not young: another clock wrote it, or this clock was set.
		switch age := p.now.Sub(before.Value.At).Abs(); {
		case same(before.Value, after), same(before.Value, stilled(before.Value, after)) && (age < tickingEvery || !p.restless()):
			return nil, nil
		}
	}
	after.Term, after.At = p.lease.Term(), p.now
	op, err := store.Put(store.GroupStatusKey(p.name), after, before.Index)
	if err != nil {
		return nil, []error{err}
	}
	return []store.Op{op}, nil
}

// slotStatusOps write the changed states of the Slots, and remove the states of removed Slots.
// States in which only numbers changed are written together with the status, after the other
// changes. The reason is that each write wakes every coordinator.
func (p *pass) slotStatusOps(along bool) (ops []store.Op, problems []error) {
	var ticked []store.Op
	kept, holds := map[string]bool{}, p.plan.HoldsBySlot()
	p.states = map[string]group.InstanceStatus{}
	for _, s := range p.plan.Status.Instances {
		key := store.SlotStatusKey(p.name, s.Slot)
		kept[key] = true
		s.Holds = holds[s.Slot]
		after := truncate.Instance(s)
		before, known := p.view.Instances[s.Slot]
		if known && same(before.Value, after) {
			continue
		}
		op, err := store.Put(key, after, p.view.IndexOf(key, before.Index))
		switch {
		case err != nil:
			problems = append(problems, err)
		case !known || !same(before.Value, stilledSlot(before.Value, after)):
			ops = append(ops, p.noteState(op, before.Value, after))
			p.states[key] = after
		default:
			ticked = append(ticked, op)
		}
	}
	for _, gone := range p.slotStatusesKept() {
		if !kept[gone.Key] {
			ops = append(ops, gone)
		}
	}
	if along && len(ops) == 0 {
		for batch := range store.Batches(p.lease.Fence(), ticked) {
			return batch, problems
		}
	}
	return ops, problems
}

// slotStatusesKept removes every record of a Slot's state, readable or not.
func (p *pass) slotStatusesKept() (ops []store.Op) {
	for slot, i := range p.view.Instances {
		if i.Value.Group == p.name {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.SlotStatusKey(p.name, slot), Index: i.Index})
		}
	}
	for _, bad := range p.view.Bad {
		if strings.HasPrefix(bad.Key, store.SlotStatusesOf(p.name)) {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: bad.Key, Index: bad.Index})
		}
	}
	return ops
}

// stilled is after with the texts of before where only numbers in them changed.
func stilled(before, after group.Status) group.Status {
	still(before.Message, &after.Message)
	if len(before.Conditions) == len(after.Conditions) {
		after.Conditions = slices.Clone(after.Conditions)
		for i := range after.Conditions {
			still(before.Conditions[i].Message, &after.Conditions[i].Message)
		}
	}
	return after
}

// stilledSlot is after with the texts and figures of before where only numbers changed.
func stilledSlot(before, after group.InstanceStatus) group.InstanceStatus {
	still(before.Reason, &after.Reason)
	after.LagBytes = before.LagBytes
	if len(before.Holds) == len(after.Holds) {
		after.Holds = slices.Clone(after.Holds)
		for i := range after.Holds {
			still(before.Holds[i].Message, &after.Holds[i].Message)
		}
	}
	return after
}

func still(old string, text *string) {
	if dedup.Same(old, *text) {
		*text = old
	}
}

func (p *pass) putStatus(ctx context.Context, status group.Status, index uint64) error {
	op, err := store.Put(store.GroupStatusKey(p.name), truncate.Status(status), index)
	if err != nil {
		return err
	}
	if err := p.commit(ctx, op); err != nil {
		return fmt.Errorf("record status: %w", err)
	}
	return nil
}

// recordHeld reports why the group cannot be run, with every problem, and changes nothing else.
func (p *pass) recordHeld(ctx context.Context) error {
	_, asked := p.view.Specs[p.name]
	_, accepted := p.view.Accepted[p.name]
	if p.held == nil || !asked && !accepted {
		// A status of a group that is gone would outlive its deletion.
		return nil
	}
	return p.recordProblem(ctx, p.held.condition, p.held.message)
}

// ConditionRecordsReadable is false while a record that decisions rest on cannot be read.
const ConditionRecordsReadable = "RecordsReadable"

// recordUnusable reports a record that cannot be read. If the status itself is unreadable, only the
// returned error reports it.
func (p *pass) recordUnusable(ctx context.Context, bad error) error {
	for _, one := range p.view.Bad {
		if one.Key == store.GroupStatusKey(p.name) {
			return bad
		}
	}
	return p.recordProblem(ctx, group.Condition{
		Type: ConditionRecordsReadable, Reason: "RECORD_UNREADABLE", Message: bounded(bad.Error()), Since: p.now,
	}, bounded(bad.Error()))
}

// recordProblem puts one condition and message into the status and keeps the rest.
func (p *pass) recordProblem(ctx context.Context, problem group.Condition, message string) error {
	before := p.view.Statuses[p.name]
	before.Value.Instances = nil
	after := before.Value
	after.Group, after.ObservedIndex, after.Message = p.name, p.view.Specs[p.name].Index, message
	after.Conditions = withCondition(before.Value.Conditions, after.Conditions, problem)
	if before.Index != 0 && same(before.Value, after) {
		return nil
	}
	p.log.Warn("nothing is decided for the group", "reason", problem.Reason, "error", problem.Message)
	after.Term, after.At = p.lease.Term(), p.now
	return p.putStatus(ctx, after, before.Index)
}

// withCondition puts one into conditions, in place of a condition of its type. Since is the time of
// the last change of its status or message.
func withCondition(before, conditions []group.Condition, one group.Condition) []group.Condition {
	typed := func(c group.Condition) bool { return c.Type == one.Type }
	if i := slices.IndexFunc(before, typed); i >= 0 && before[i].Status == one.Status && before[i].Message == one.Message {
		one.Since = before[i].Since
	}
	return append(slices.DeleteFunc(slices.Clone(conditions), typed), one)
}

func firstLine(err error) string {
	if v, ok := errors.AsType[*group.ValidationError](err); ok && len(v.Problems) > 0 {
		more := ""
		if n := len(v.Problems) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return v.Problems[0].String() + more
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return bounded(line)
}

// bounded truncates text to the bound of a message about a group.
func bounded(text string) string { return truncate.Page(text) }
