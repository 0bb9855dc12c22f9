package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/address"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// next is when the next pass runs.
type next struct {
	again bool
	in    time.Duration
}

// pass is one turn of the loop for one group.
type pass struct {
	*Reconciler
	log   *slog.Logger
	lease store.Lease
	name  string
	pace  *pace

	view *view.View
	// read is the index of the records that this pass read.
	read uint64
	// held is why no new step may begin: the stored spec is not valid or is gone. It is nil
	// otherwise.
	held *held
	seen observe.Seen
	plan rollout.Plan
	now  time.Time

	// The report, in order: whether a write of the status was attempted, why a part of it could
	// not be written, and the transactions that follow after acting.
	statusTried bool
	unrecorded  error
	rest        [][]store.Op
	// states are the changed states of Slots, by their keys.
	states map[string]group.InstanceStatus
}

func (p *pass) run(ctx context.Context) (next, error) {
	if err := overtaken(p.cfg.Reports.Term(), p.lease.Term()); err != nil {
		p.halt(err)
		return next{}, err
	}
	// Before the records are read: they must contain the state seen here.
	seen, agents := p.cfg.Watermark.Seen(), p.cfg.Reports.HighWater()
	ready, err := p.observe(ctx)
	if p.view != nil {
		if err := p.wentBack(seen); err != nil {
			p.halt(err)
			return next{}, err
		}
		p.halt(nil)
		if p.tooFewReports(p.heard(agents)) {
			return next{in: listBusy}, nil
		}
	}
	if err != nil || !ready {
		p.line.leave(p.name, false)
		return next{in: spread(resync)}, err
	}
	if fresh, err := p.settleClocks(ctx); err != nil || fresh {
		return next{again: fresh}, err
	}
	if fresh, err := p.accept(ctx); err != nil || fresh {
		return next{again: fresh}, err
	}
	if p.unconfirmed(p.heard(agents)) {
		return next{in: listBusy}, p.reportUnconfirmed(ctx)
	}
	if fresh, err := p.gate(ctx); err != nil || fresh {
		return next{again: fresh}, err
	}
	if fresh, err := p.cfg.Operator.EnsureRevision(ctx, p.lease, p.view, p.seen); err != nil || fresh {
		return next{again: fresh}, err
	}
	if fresh, err := p.adopt(ctx); err != nil || fresh {
		return next{again: fresh}, err
	}
	if err := p.readLine(ctx); err != nil {
		return next{}, err
	}
	p.decide()
	if maxAge := p.tooOld(); maxAge > 0 {
		// Actions and waits rest on a recent answer of the platform.
		p.look(ctx, maxAge)
		if ctx.Err() != nil {
			return next{}, ctx.Err()
		}
		p.decide()
	}
	p.pace.led = true
	if gone, err := p.removeGroup(ctx); err != nil || gone {
		return next{in: spread(resync)}, err
	}
	// This uses the records as read: the next pass tidies up after the plan's writes.
	tidied, err := p.cfg.Operator.TidyPolicies(ctx, p.lease, p.view, p.name)
	if err != nil {
		return next{}, err
	}
	changed, err := p.recordInTurn(ctx)
	if err != nil {
		return next{}, err
	}
	if changed {
		// The next decision is made from the written records (R69).
		return next{again: true}, p.reportRest(ctx)
	}
	again, err := p.act(ctx)
	if err != nil {
		return next{}, err
	}
	if err := p.reportRest(ctx); err != nil {
		return next{}, err
	}
	return next{again: again || tidied, in: p.wake()}, nil
}

// decide plans from the observations.
func (p *pass) decide() {
	p.seen.Now.Refused = p.cfg.Operator.Refused()
	for revision, reason := range p.seen.Now.Refused {
		p.seen.Now.Refused[revision] = bounded(reason)
	}
	p.seen.Now.Queue = p.limits()
	p.seen.Pass = rollout.Evaluate(p.seen.Spec, p.seen.Records, p.seen.Now, p.now, p.cfg.Timing)
	p.plan = p.seen.Pass.Plan()
	p.hold()
}

// tooOld returns the highest allowed age of the listing if the plan used an older one, else zero.
func (p *pass) tooOld() time.Duration {
	age := p.now.Sub(p.seen.Listing.At)
	switch {
	case age > listBusy && p.cut():
		return listBusy
	case age > listIdle && p.restless():
		return listIdle
	}
	return 0
}

// restless: some action or wait is open that may change without a record or a report.
func (p *pass) restless() bool {
	s := p.plan.Status
	return len(p.plan.Actions) > 0 || p.open() > 0 || len(p.seen.Now.Requests) > 0 || p.seen.Now.Deletion != nil ||
		s.Available < s.Replicas || p.seen.Listing.Lacks() != nil || len(p.plan.Slots) != len(p.view.Slots) || p.silentSlot()
}

// silentSlot: a Slot's agent never reported, missed a heartbeat, or lost its connection.
func (p *pass) silentSlot() bool {
	silent := p.silences()[0]
	return slices.ContainsFunc(p.seen.Now.Slots, func(s rollout.SlotObservation) bool {
		return s.Report == nil || p.now.Sub(s.Report.ReceivedAt) > silent || !s.Report.CutAt.IsZero()
	})
}

// cut: a Slot's agent reported a moment ago, and its last connection ended. The platform is queried
// repeatedly for the state of its CVM, until the agent is back or its report is stale.
func (p *pass) cut() bool {
	return slices.ContainsFunc(p.seen.Now.Slots, func(s rollout.SlotObservation) bool {
		return s.Report != nil && !s.Report.CutAt.IsZero() && p.now.Sub(s.Report.ReceivedAt) <= p.cfg.Timing.OrDefault().StaleAfter
	})
}

// observe reads the records of the group again. It is not ready while the group has no spec to run
// by, or has an unreadable record. The reason is then in the status, and nothing else changes.
func (p *pass) observe(ctx context.Context) (ready bool, err error) {
	latest, _ := p.cfg.Views.Latest()
	p.view, err = view.ReadGroup(ctx, p.cfg.Store, p.name, latest, p.pace.view)
	if err != nil {
		return false, err
	}
	if !p.view.Same(p.pace.view) {
		p.pace.seen = nil
	}
	p.pace.view = p.view.Own()
	p.read = p.view.Index
	p.cfg.Watermark.Elapsed(p.view.CountFrom(p.cfg.Watermark.Zero).Elapsed)
	p.now = p.cfg.Now().UTC()
	if bad := p.view.Unusable(p.name); bad != nil {
		return false, p.recordUnusable(ctx, bad)
	}
	spec, _, ok := p.view.InForce(p.name)
	p.held = p.whyHeld()
	if _, accepted := p.view.Accepted[p.name]; !ok || p.held != nil && !accepted {
		// A spec that was never accepted is not used, not even to plan.
		return false, p.recordHeld(ctx)
	}
	p.seen.Spec = spec
	maxAge := listCalm
	switch {
	case p.open() > 0:
		maxAge = listBusy
	case p.unsettled(spec):
		maxAge = listIdle
	}
	p.look(ctx, maxAge)
	return ctx.Err() == nil, ctx.Err()
}

// unsettled: the records alone show that the group needs work. The platform's answer then affects
// more than the plan.
func (p *pass) unsettled(spec group.Spec) bool {
	status := p.view.Statuses[p.name].Value
	_, deleted := p.view.Deletes[p.name]
	_, adopted := p.view.Adoptions[p.name]
	stored, is := p.view.Specs[p.name]
	return status.Target != spec.Revision() || status.Stable != status.Target || status.Available != spec.Replicas || len(p.view.Slots) != spec.Replicas ||
		is && stored.Index != p.view.Accepted[p.name].SpecIndex || len(p.view.Queue) > 0 || deleted || adopted
}

// look joins the records, the agents' reports and the platform's list, which is not older than
// maxAge.
func (p *pass) look(ctx context.Context, maxAge time.Duration) {
	listing := p.cfg.Listing.List(ctx, p.name, maxAge)
	p.now = p.cfg.Now().UTC()
	if p.pace.seen != nil {
		p.seen = observe.Again(*p.pace.seen, p.view, p.cfg.Cluster, listing, p.cfg.Reports)
	} else {
		p.seen = observe.Group(p.view, p.seen.Spec, p.cfg.Cluster, listing, p.cfg.Reports)
	}
	p.pace.seen = &observe.Seen{Spec: p.seen.Spec, Records: p.seen.Records, Asked: p.seen.Asked}
	if p.pace.led {
		// This leader watched since then: every change woke it.
		p.seen.Records.Status.At = p.now
	}
	if p.held != nil && p.open() == 0 && p.seen.Now.Deletion == nil {
		// The clocks of the rollout stop meanwhile (R93).
		p.seen.Now.Pause = &rollout.Override{}
	}
}

func (p *pass) open() int {
	n := 0
	for _, o := range p.view.Operations {
		if o.Value.Group == p.name && !o.Value.Phase.Ended() {
			n++
		}
	}
	return n
}

// act advances every open Operation. A failed Operation does not stop the others.
func (p *pass) act(ctx context.Context) (again bool, err error) {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(p.view.Operations)) {
		op := p.view.Operations[id]
		if op.Value.Group != p.name || op.Value.Phase.Ended() {
			continue
		}
		more, err := p.cfg.Operator.Step(ctx, p.lease, p.view, p.seen, op)
		if err != nil {
			errs = append(errs, fmt.Errorf("operation %s: %w", id, err))
		}
		again = again || more
	}
	return again, errors.Join(errs...)
}

// wake is the time until the next pass, if no change arrives.
func (p *pass) wake() time.Duration {
	in := spread(resync)
	switch {
	case p.open() > 0, p.cut():
		in, p.pace.calm = listBusy, 0
	case p.restless():
		in = spread(min(listIdle<<min(p.pace.calm, 8), calmest))
		p.pace.calm++
	default:
		p.pace.calm = 0
	}
	if p.unrecorded != nil {
		in = min(in, errorWait)
	}
	if !p.plan.Clock.IsZero() {
		in = min(in, p.plan.Clock.Sub(p.cfg.Now()))
	}
	return max(in, burst)
}

// same compares records in their stored form.
func same[T any](a, b T) bool {
	if reflect.DeepEqual(a, b) {
		return true // most are equal, and this costs less than two texts
	}
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// platformName is the CVM's name, unique in the workspace.
func (p *pass) platformName(slot string) string { return p.cfg.Cluster + "-" + slot }

// completeSlots adds the addresses and platform names, which the planner does not know.
func (p *pass) completeSlots(slots []group.SlotRecord, used address.Used) ([]group.SlotRecord, []store.Op, error) {
	out, given, err := addresses(p.view, p.name, slots, used)
	if err != nil {
		return nil, nil, err
	}
	p.book.used.AddAll(given) // also where the write of the records fails
	ops, err := p.addressesOps(given)
	if err != nil {
		return nil, nil, fmt.Errorf("record the group's addresses: %w", err)
	}
	for i := range out {
		if out[i].PlatformName == "" {
			out[i].PlatformName = p.platformName(out[i].Slot)
		}
	}
	return out, ops, nil
}
