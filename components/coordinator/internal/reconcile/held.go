package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// ConditionSpecValid reports whether the stored spec can be used.
const ConditionSpecValid = "SpecValid"

// HoldSpec blocks new steps while the stored spec is not valid or is gone.
const HoldSpec = "spec_not_valid"

// held is why a group is kept and not changed.
type held struct {
	condition group.Condition
	// message is the condition in one line.
	message string
}

// whyHeld is nil while the stored spec can be used. Otherwise the last valid spec stays in force.
// Open Operations finish by it, so that no member stays drained. No new Operation begins.
// Removing a spec removes no instance.
func (p *pass) whyHeld() *held {
	_, exists := p.view.Specs[p.name]
	condition := group.Condition{Type: ConditionSpecValid, Since: p.now}
	// A spec that panics in its validation is refused: the group keeps its last accepted spec.
	err := contain.Call(func() error { return p.cfg.Validator.Stored(p.view, p.name) })
	p.cfg.Panics.Note("spec", err)
	switch {
	case exists && err == nil:
		return nil
	case exists:
		condition.Reason, condition.Message = string(specvalidate.Code(err)), bounded(err.Error())
		return &held{condition: condition, message: "the spec is not valid and changes nothing: " + firstLine(err)}
	}
	condition.Reason = "SPEC_REMOVED"
	condition.Message = "the spec was removed: the instances are left as they are and keep their credentials; put a spec back to manage them, or delete them on the platform"
	return &held{condition: condition, message: condition.Message}
}

// hold blocks the new steps of a held plan. It first puts a step that the platform would refuse
// into the status message, because an operator has to decide about that step.
func (p *pass) hold() {
	for _, a := range p.plan.Actions {
		for _, h := range a.Holds {
			if h.Predicate == rollout.HoldPrecondition {
				p.plan.Status.Message = bounded(fmt.Sprintf("%s of %s is held, blocked(%s): %s", a.Kind, a.Slot, h.Predicate, h.Message))
			}
		}
	}
	if p.held == nil || p.seen.Now.Deletion != nil {
		return // a group under deletion needs no valid spec
	}
	if q := p.plan.Status.Queue; q != nil {
		q.Step.Ready, q.Create.Ready = false, false
	}
	for i := range p.plan.Actions {
		if a := &p.plan.Actions[i]; a.Operation == "" {
			a.Execute = false
			a.Holds = append(a.Holds, rollout.Hold{Predicate: HoldSpec, Message: p.held.message})
		}
	}
}

// accept records a new valid spec, if it is still the stored spec. From then on every coordinator
// uses it, however the spec arrived.
func (p *pass) accept(ctx context.Context) (changed bool, err error) {
	spec := p.view.Specs[p.name]
	if accepted := p.view.Accepted[p.name]; p.held != nil || accepted.Index != 0 && accepted.SpecIndex == spec.Index {
		return false, nil
	}
	by, request, err := store.AppliedBy(ctx, p.cfg.Store, p.name, spec.Index)
	if err != nil {
		return false, fmt.Errorf("accept the spec: %w", err)
	}
	// Without HTML escapes, or a spec at its size bound would not fit.
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(store.AcceptedSpec{
		Group: p.name, SpecIndex: spec.Index, Spec: json.RawMessage(spec.Raw), By: by, Request: request, Term: p.lease.Term(), At: p.now,
	}); err != nil {
		return false, fmt.Errorf("accept the spec: %w", err)
	}
	put, err := store.PutRaw(store.GroupAcceptedKey(p.name), text.Bytes(), p.view.IndexOf(store.GroupAcceptedKey(p.name), p.view.Accepted[p.name].Index))
	if err != nil {
		return false, fmt.Errorf("accept the spec: %w", err)
	}
	put = store.Noted(put, p.note("accept", request, fmt.Sprintf("revision %.12s, spec by %s", spec.Value.Revision(), by)))
	unchanged := store.Op{Kind: store.OpCheckIndex, Key: store.GroupSpecKey(p.name), Index: spec.Index}
	ops, ofSlots := p.leftGates(spec.Value)
	if err := p.removeSettings(ctx, ofSlots, unchanged); err != nil {
		return false, fmt.Errorf("accept the spec: %w", err)
	}
	ops = append(append(ops, p.takenBack(spec.Value)...), put)
	if err := p.commitAccepted(ctx, by == store.WrittenToKV, ops, unchanged); err != nil {
		return false, fmt.Errorf("accept the spec: %w", err)
	}
	p.log.Info("spec accepted", "revision", spec.Value.Revision(), "spec_index", spec.Index, "by", by, "request", request)
	return true, nil
}

// commitAccepted writes ops if the spec is unchanged. A spec that was edited in Consul KV is entered
// as such in the same transaction, because a later edit may follow at once.
func (p *pass) commitAccepted(ctx context.Context, edited bool, ops []store.Op, unchanged store.Op) error {
	if !edited {
		return p.commit(ctx, append(ops, unchanged)...)
	}
	p.entered.mu.Lock()
	defer p.entered.mu.Unlock()
	now, err := p.readLocked(ctx, []string{unchanged.Key})
	if err != nil {
		return err
	}
	if op, is := p.editedLocked(unchanged.Key, now[unchanged.Key]); is && now[unchanged.Key].Index == unchanged.Index {
		unchanged = op
	}
	return p.commit(ctx, append(ops, unchanged)...)
}
