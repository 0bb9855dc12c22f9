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

// next is when to look again.
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
	// read is the index up to which the records were read.
	read uint64
	// held is why nothing new may be begun: the stored spec is not valid or is gone.
	// nil otherwise.
	held *held
	seen observe.Seen
	plan rollout.Plan
	now  time.Time

	// told is set once something of the status was written, or tried to be; rest are the
	// transactions that follow after acting. untold is why something could not be written.
	told   bool
	untold error
	rest   [][]store.Op
	// states are those of Slots that are news, by the keys that they are written at.
	states map[string]group.InstanceStatus
}

func (p *pass) run(ctx context.Context) (next, error) {
	if err := overtaken(p.cfg.Reports.Term(), p.lease.Term()); err != nil {
		p.halt(err)
		return next{}, err
	}
	// Before the records are read: what was seen must be there then.
	seen, agents := p.cfg.Ratchet.Seen(), p.cfg.Reports.HighWater()
	ready, err := p.observe(ctx)
	if p.view != nil {
		if err := p.wentBack(seen); err != nil {
			p.halt(err)
			return next{}, err
		}
		p.halt(nil)
		if p.deaf(p.heard(agents)) {
			return next{in: listBusy}, nil
		}
	}
	if err != nil || !ready {
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
	p.decide()
	if maxAge := p.tooOld(); maxAge > 0 {
		// Whatever is to be done rests on what the platform says now.
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
	// By the records that were read: what the plan writes is tidied up by the next pass.
	tidied, err := p.cfg.Operator.TidyPolicies(ctx, p.lease, p.view, p.name)
	if err != nil {
		return next{}, err
	}
	changed, err := p.record(ctx)
	if err != nil {
		return next{}, err
	}
	if changed {
		// The next decision is made from what was written (R69).
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

// decide plans from what was seen.
func (p *pass) decide() {
	p.seen.Now.Refused = p.cfg.Operator.Refused()
	for revision, reason := range p.seen.Now.Refused {
		p.seen.Now.Refused[revision] = bounded(reason)
	}
	p.seen.Pass = rollout.Look(p.seen.Spec, p.seen.Records, p.seen.Now, p.now, p.cfg.Timing)
	p.plan = p.seen.Pass.Plan()
	p.hold()
}

// tooOld is how old the listing may be at most, where what was planned from is older; else zero.
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

// restless: something is to be done, or waited for, that may change without a record or a
// report that tells of it.
func (p *pass) restless() bool {
	s := p.plan.Status
	return len(p.plan.Actions) > 0 || p.open() > 0 || len(p.seen.Now.Requests) > 0 || p.seen.Now.Deletion != nil ||
		s.Available < s.Replicas || p.seen.Listing.Err != nil || len(p.plan.Slots) != len(p.view.Slots) || p.silentSlot()
}

// silentSlot: a Slot's agent is not heard, or missed a heartbeat, or is cut.
func (p *pass) silentSlot() bool {
	silent := p.silences()[0]
	return slices.ContainsFunc(p.seen.Now.Slots, func(s rollout.SlotObservation) bool {
		return s.Report == nil || p.now.Sub(s.Report.ReceivedAt) > silent || !s.Report.CutAt.IsZero()
	})
}

// cut: a Slot's agent was heard a moment ago, and its last connection ended: the platform is
// asked again and again what became of its CVM, until it is back or its report is stale.
func (p *pass) cut() bool {
	return slices.ContainsFunc(p.seen.Now.Slots, func(s rollout.SlotObservation) bool {
		return s.Report != nil && !s.Report.CutAt.IsZero() && p.now.Sub(s.Report.ReceivedAt) <= p.cfg.Timing.OrDefault().StaleAfter
	})
}

// observe reads the records of the group afresh. It is not ready while there is no spec to run
// the group by, or a record about it that cannot be read: then the reason is in
// the status and nothing else changes.
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
	p.cfg.Ratchet.Elapsed(p.view.CountFrom(p.cfg.Ratchet.Zero).Elapsed)
	p.now = p.cfg.Now().UTC()
	if bad := p.view.Unusable(p.name); bad != nil {
		return false, p.recordUnusable(ctx, bad)
	}
	spec, _, ok := p.view.InForce(p.name)
	p.held = p.whyHeld()
	if _, accepted := p.view.Accepted[p.name]; !ok || p.held != nil && !accepted {
		// What was never accepted is not run by, not even to plan.
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

// unsettled: the records alone tell that something is to be done, so that more than the
// plan will rest on what the platform says.
func (p *pass) unsettled(spec group.Spec) bool {
	status := p.view.Statuses[p.name].Value
	_, deleted := p.view.Deletes[p.name]
	_, adopted := p.view.Adoptions[p.name]
	stored, is := p.view.Specs[p.name]
	return status.Target != spec.Revision() || status.Stable != status.Target || status.Available != spec.Replicas || len(p.view.Slots) != spec.Replicas ||
		is && stored.Index != p.view.Accepted[p.name].SpecIndex || len(p.view.Queue) > 0 || deleted || adopted
}

// look joins the records with the platform's list, which is not older than maxAge, and the
// reports.
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
		// This leader looked ever since: whatever changed woke it.
		p.seen.Records.Status.At = p.now
	}
	if p.held != nil && p.open() == 0 && p.seen.Now.Deletion == nil {
		// The clocks of the rollout stand still meanwhile (R93).
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

// act carries every open Operation on. One that cannot be does not stop the others.
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

// wake is how long nothing needs to be looked at, changes aside.
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
	if p.untold != nil {
		in = min(in, errorWait)
	}
	if !p.plan.Clock.IsZero() {
		in = min(in, p.plan.Clock.Sub(p.cfg.Now()))
	}
	return max(in, burst)
}

// same compares records as they are stored.
func same[T any](a, b T) bool {
	if reflect.DeepEqual(a, b) {
		return true // most are, and it costs less than two texts
	}
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// platformName is the CVM's name, unique in the workspace.
func (p *pass) platformName(slot string) string { return p.cfg.Cluster + "-" + slot }

// completeSlots gives the planner's Slot records what the planner does not know.
func (p *pass) completeSlots(slots []group.SlotRecord, used address.Used) ([]group.SlotRecord, []store.Op, error) {
	out, given, err := addresses(p.view, p.name, slots, used)
	if err != nil {
		return nil, nil, err
	}
	p.book.used.AddAll(given) // whether or not it can be recorded
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
