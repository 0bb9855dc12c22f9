package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/dedup"
	"cadre.dev/coordinator/internal/measure"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
	"cadre.dev/store"
)

// Failpoints are the points where a test may end the process.
const (
	FailAfterHandover    = "after-handover"
	FailAfterCall        = "after-platform-call"
	FailBeforeMinReady   = "before-min-ready-ends"
	minRemaining         = 2 * time.Second
	remainingPoll        = 100 * time.Millisecond
	provisionedFor       = 5 * time.Minute
	defaultProvisionTime = 15 * time.Second
)

// Metrics counts platform calls with an effect, and Operations that ended, after a successful
// write.
type Metrics interface {
	Call(kind, outcome string)
	Ended(op operation.Operation)
}

// Config of an Operator. All fields are required.
type Config struct {
	Cluster  string
	Store    store.Store
	Platform platform.Platform
	// Validator knows the coordinators' own app, in which no CVM is made or changed.
	Validator *specvalidate.Validator
	// Measure renders and judges the documents that CVMs are measured with.
	Measure measure.Measure
	// Watermark writes together with a higher state.
	Watermark interface {
		Grow(ctx context.Context, lease store.Lease, ops ...store.Op) error
	}
	// Listing drops its cached list of a group after each call.
	Listing interface{ Forget(group string) }
	// Look observes a group again: the records, the platform's list, the reports.
	Look func(ctx context.Context, group string) (*view.View, observe.Seen, error)
	// Wake notifies a Slot's agent that its desired state changed.
	Wake      func(slot string)
	Timing    rollout.Timing
	Now       func() time.Time
	Failpoint func(name string)
	Log       *slog.Logger
	Metrics   Metrics
}

// Operator carries Operations out. Safe for concurrent use by different groups.
type Operator struct {
	cfg Config

	mu sync.Mutex
	// took is the time at which the Lease was taken; guarded by mu.
	took time.Time
	// prepared by Operation id; guarded by mu. Losing an entry costs one provision.
	prepared map[string]prepared
	// answers are call results without a record; guarded by mu. Losing an answer costs a read-back.
	answers map[string]operation.CallResult
	// notBefore paces failed provisioning, by Revision; guarded by mu.
	notBefore map[string]time.Time
	// refused is why a Revision's document may not be allowed, by the platform's last answer;
	// guarded by mu.
	refused map[string]string
	// sizes are the answers about the sizes of single Slots, by Slot; guarded by mu. Losing an entry costs
	// another question.
	sizes map[string]askedSize
	// looks are reads of the platform's task records, by Operation id; guarded by mu. Losing an
	// entry costs another read.
	looks map[string]taskLook
	// asked are the Revisions, by group, that its spec names and that the platform accepted in this
	// Term; guarded by mu. Losing an entry costs a provision.
	asked map[string]map[string]bool
}

// New makes an Operator.
func New(cfg Config) *Operator {
	cfg.Timing = cfg.Timing.OrDefault()
	return &Operator{cfg: cfg, prepared: map[string]prepared{}, answers: map[string]operation.CallResult{}, notBefore: map[string]time.Time{}, refused: map[string]string{},
		asked: map[string]map[string]bool{}, sizes: map[string]askedSize{}, looks: map[string]taskLook{}}
}

// Took records when the Lease was taken. It clears this process' memory of an earlier Term, which
// is not trusted. The memory of an earlier holder is unknown here.
func (o *Operator) Took(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took = at
	clear(o.prepared)
	clear(o.answers)
	clear(o.asked)
	clear(o.sizes)
	clear(o.looks)
	clear(o.refused)
}

// Step advances one open Operation as far as v and seen allow, and executes the effects. again
// requests another pass at once. seen carries the Pass that planned.
func (o *Operator) Step(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen, op view.Rec[operation.Operation]) (again bool, err error) {
	var facts operation.Facts
	clock := func() time.Time { return o.cfg.Now().UTC() }
	way, effects, err := operation.Carry(op.Value, clock, func(at operation.Operation) (_ operation.Facts, err error) {
		facts, err = o.facts(ctx, lease, v, seen, at)
		return facts, err
	})
	if err != nil {
		return false, err
	}
	next := truncate.Operation(way[len(way)-1])
	if len(effects) == 0 && dedup.Same(op.Value.Reason, next.Reason) {
		// Every write wakes every coordinator and the agent.
		next.Reason = op.Value.Reason
	}
	if operation.Same(op.Value, next) {
		return false, nil
	}
	if err := o.record(ctx, lease, v, op, next); err != nil {
		return false, err
	}
	if facts.Call != nil && next.Call.Outcome != "" {
		o.forget(op.Value.ID, false)
	}
	if next.Phase.Ended() {
		o.forget(op.Value.ID, true)
		o.cfg.Metrics.Ended(next)
	}
	for i, from := range append([]operation.Operation{op.Value}, way[:len(way)-1]...) {
		o.transition(from, way[i])
	}
	for _, effect := range effects {
		switch effect.Kind {
		case operation.SendOrder:
			o.cfg.Wake(next.Slot)
		case operation.CallPlatform:
			o.actOn(ctx, lease, next, effect)
		}
	}
	return true, nil
}

// facts collects the facts about op, whose Phase may not be recorded yet. It also creates the
// preconditions of its call.
func (o *Operator) facts(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen, op operation.Operation) (operation.Facts, error) {
	now := o.cfg.Now().UTC()
	facts := seen.Pass.Facts(op)
	facts.Term = lease.Term()
	if answer, ok := o.answer(op.ID); ok {
		facts.Call = &answer
	} else {
		facts.Task = o.task(ctx, op, now)
	}
	if err := o.prepare(ctx, lease, v, seen, op, &facts); err != nil {
		return operation.Facts{}, err
	}
	if d := judgeEnv(v, seen, op); !d.Allowed {
		// The spec's values changed since the step began.
		facts.Safe, facts.SafeReason = false, fmt.Sprintf("%s: %s", d.Code, d.Message)
	}
	facts.TakenOver(op, o.tookAt(now), o.cfg.Now().UTC(), o.cfg.Timing.MaxCallTimeout)
	return facts, nil
}

// actOn makes the recorded call, if a last observation allows it. The decision's own observation
// predates the provisioning and the record.
func (o *Operator) actOn(ctx context.Context, lease store.Lease, op operation.Operation, effect operation.Effect) {
	o.cfg.Listing.Forget(op.Group)
	v, seen, err := o.cfg.Look(ctx, op.Group)
	if err != nil {
		o.notMade(op, effect, "the last look failed: "+err.Error())
		return
	}
	seen.Now.Refused = o.Refused() // a heal in place of a refused update stays permitted
	facts := rollout.FactsFor(seen.Spec, seen.Records, seen.Now, o.cfg.Now().UTC(), o.cfg.Timing, op)
	reason, ok := operation.MayCall(op, facts)
	if ok && op.Kind != operation.Delete && op.Kind != operation.Restart && op.Kind != operation.Stop && !op.Undoes() {
		if d := mayRun(v, seen, op, op.Call.HashWanted); !d.Allowed {
			reason, ok = fmt.Sprintf("%s: %s", d.Code, d.Message), false
		}
	}
	if d := judgeEnv(v, seen, op); ok && givesEnv(effect) && !d.Allowed {
		reason, ok = fmt.Sprintf("%s: %s", d.Code, d.Message), false
	}
	if ok && givesEnv(effect) && ownEnv(v, seen, op) != op.Call.OwnEnv {
		reason, ok = "the slot's own env changed since the call was recorded", false
	}
	if !ok {
		o.notMade(op, effect, reason)
		return
	}
	effect.NotOn = facts.NotOn // as of the last look
	o.call(ctx, lease, seen, op, effect)
}

// notMade answers a call that was not sent.
func (o *Operator) notMade(op operation.Operation, effect operation.Effect, reason string) {
	o.cfg.Log.Info("platform call not made", "group", op.Group, "operation", op.ID, "slot", op.Slot, "kind", effect.Call, "reason", reason)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers[op.ID] = operation.CallResult{Number: effect.Number, Outcome: operation.OutcomeNotMade, Message: reason}
}

// record writes the Operation with check-and-set under the Lease. An unknown outcome is an error
// too: no action follows a record that may not exist.
func (o *Operator) record(ctx context.Context, lease store.Lease, v *view.View, old view.Rec[operation.Operation], next operation.Operation) error {
	put, err := store.Put(store.OperationKey(next.ID), next, old.Index)
	if err != nil {
		return err
	}
	ops := []store.Op{put}
	slot := v.Slots[next.Slot]
	was, after := slot.Value, slot.Value
	after.Assigned, after.OwnEnv, after.Heals = next.AssignedAfter(was.Assigned), next.OwnEnvAfter(was.OwnEnv), next.HealsAfter(was.Heals)
	after.WasAvailableAt = next.WasAvailableAfter(was.WasAvailableAt)
	same := after.Assigned == was.Assigned && after.OwnEnv == was.OwnEnv && after.Heals == was.Heals && after.WasAvailableAt == was.WasAvailableAt
	if slot.Index != 0 && !same {
		put, err := store.Put(store.SlotKey(next.Group, next.Slot), after, slot.Index)
		if err != nil {
			return err
		}
		ops = append(ops, put)
	}
	if asked := v.Queue[next.Request.ResolvedBy]; next.Request.ResolvedBy != "" && next.Request.ResolvedBy != old.Value.Request.ResolvedBy && asked.Index != 0 {
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.QueueKey(next.Request.ResolvedBy), Index: asked.Index})
	}
	if next.Call.Number != old.Value.Call.Number {
		// The state is never older than an effect.
		return o.cfg.Watermark.Grow(ctx, lease, ops...)
	}
	return o.cfg.Store.Commit(ctx, append(lease.Fence(), ops...)...)
}

// transition logs a change of Phase once, and lets tests end the process there.
func (o *Operator) transition(old, next operation.Operation) {
	handedOver := next.Transfer != nil && next.Transfer.Made && (old.Transfer == nil || !old.Transfer.Made)
	if handedOver {
		o.cfg.Log.Info("leadership handed over", "group", next.Group, "operation", next.ID, "slot", next.Slot, "to", next.Transfer.To, "term", next.Term)
	}
	if old.Phase != next.Phase {
		o.cfg.Log.Info("operation phase", "group", next.Group, "operation", next.ID, "slot", next.Slot,
			"phase", next.Phase, "reason", next.Reason, "revision", next.To, "term", next.Term)
		o.cfg.Wake(next.Slot)
	}
	switch {
	case handedOver:
		o.cfg.Failpoint(FailAfterHandover)
	case next.Phase == operation.Settling && old.Phase != operation.Settling:
		o.cfg.Failpoint(FailBeforeMinReady)
	}
}

// tookAt is when the Lease was taken, but at most now. After the clock was set back, a time in the
// future would make every call wait until the clock reaches it again.
func (o *Operator) tookAt(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.took.After(now) {
		o.took = now
	}
	return o.took
}

func (o *Operator) answer(id string) (operation.CallResult, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a, ok := o.answers[id]
	return a, ok
}

func (o *Operator) forget(id string, all bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.answers, id)
	if all {
		delete(o.prepared, id)
		delete(o.looks, id)
	}
}

// OutcomeOf maps a driver's error to one of the outcomes (R65).
func OutcomeOf(err error) operation.Outcome {
	switch {
	case err == nil:
		return operation.OutcomeDone
	case errors.Is(err, platform.ErrBusy), errors.Is(err, platform.ErrThrottled):
		return operation.OutcomeBusy
	case errors.Is(err, platform.ErrRefused), errors.Is(err, platform.ErrNotFound):
		return operation.OutcomeRefused
	}
	return operation.OutcomeUnknown
}
