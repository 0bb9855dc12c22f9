package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/internal/quiet"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// tickingEvery is how often a status is written in which only numbers changed,
// such as how far a member is behind.
const tickingEvery = 2 * time.Second

// recordStatus writes the status when it says something new, and otherwise once
// per resync, so that readers can tell how old it is.
func (p *pass) recordStatus(ctx context.Context) error {
	before := p.view.Statuses[p.name]
	after := p.plan.Status
	after.Group, after.ObservedIndex = p.name, p.view.Specs[p.name].Index
	if c, ok := p.strangersOf(p.name, p.now); ok {
		after.Conditions = withCondition(before.Value.Conditions, after.Conditions, c)
	}
	if p.held != nil {
		after.Message = p.held.message
		after.Conditions = withCondition(before.Value.Conditions, after.Conditions, p.held.condition)
		_, after.Paused = p.view.Pauses[p.name]
	}
	if conflict, found := p.bootConflict(ctx); found {
		after.Conditions = withCondition(before.Value.Conditions, after.Conditions, conflict)
	}
	after.Term, after.At = before.Value.Term, before.Value.At
	if before.Index != 0 && before.Value.Term == p.lease.Term() {
		switch age := p.now.Sub(before.Value.At); {
		case same(before.Value, after) && age < resync, same(before.Value, stilled(before.Value, after)) && age < tickingEvery:
			return nil
		}
	}
	after.Term, after.At = p.lease.Term(), p.now
	return p.putStatus(ctx, after, before.Index)
}

// stilled is after with those texts and figures of before that only tick.
func stilled(before, after group.Status) group.Status {
	still := func(old string, text *string) {
		if quiet.Same(old, *text) {
			*text = old
		}
	}
	still(before.Message, &after.Message)
	if len(before.Conditions) == len(after.Conditions) {
		after.Conditions = slices.Clone(after.Conditions)
		for i := range after.Conditions {
			still(before.Conditions[i].Message, &after.Conditions[i].Message)
		}
	}
	if len(before.Instances) == len(after.Instances) {
		after.Instances = slices.Clone(after.Instances)
		for i := range after.Instances {
			still(before.Instances[i].Reason, &after.Instances[i].Reason)
			after.Instances[i].LagBytes = before.Instances[i].LagBytes
		}
	}
	return after
}

func (p *pass) putStatus(ctx context.Context, status group.Status, index uint64) error {
	op, err := store.Put(store.GroupStatusKey(p.name), status, index)
	if err != nil {
		return err
	}
	if err := p.commit(ctx, op); err != nil {
		return fmt.Errorf("record status: %w", err)
	}
	return nil
}

// recordHeld reports why the group cannot be run, with every problem, and leaves
// all else as it was.
func (p *pass) recordHeld(ctx context.Context) error {
	if p.held == nil {
		return nil
	}
	return p.recordProblem(ctx, p.held.condition, p.held.message)
}

// ConditionRecordsReadable is false while a record that decisions rest on cannot
// be read.
const ConditionRecordsReadable = "RecordsReadable"

// recordUnusable reports a record that cannot be read. Where that is the status
// itself, the error is all that can be said.
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

// withCondition puts one into conditions, in place of one of its type. Since is
// when it began to say so.
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

func bounded(text string) string {
	const limit = 8 << 10
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
