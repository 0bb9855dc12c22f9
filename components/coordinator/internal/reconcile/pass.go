package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
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

	view *view.View
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
}

func (p *pass) run(ctx context.Context) (next, error) {
	if err := p.overtaken(); err != nil {
		p.halt(err)
		return next{}, err
	}
	seen := p.cfg.Ratchet.Seen() // before the records are read
	ready, err := p.observe(ctx)
	if p.view != nil {
		if err := p.wentBack(seen); err != nil {
			p.halt(err)
			return next{}, err
		}
		p.halt(nil)
		if p.deaf() {
			return next{in: listBusy}, nil
		}
	}
	if err != nil || !ready {
		return next{in: resync}, err
	}
	if fresh, err := p.settleClocks(ctx); err != nil || fresh {
		return next{again: fresh}, err
	}
	if fresh, err := p.accept(ctx); err != nil || fresh {
		return next{again: fresh}, err
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
	p.seen.Pass = rollout.Look(p.seen.Spec, p.seen.Records, p.seen.Now, p.now, p.cfg.Timing)
	p.plan = p.seen.Pass.Plan()
	p.hold()
	if gone, err := p.removeGroup(ctx); err != nil || gone {
		return next{in: resync}, err
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
	return next{again: again, in: p.wake()}, nil
}

// observe reads everything afresh. It is not ready while there is no spec to run
// the group by, or a record about it that cannot be read: then the reason is in
// the status and nothing else changes.
func (p *pass) observe(ctx context.Context) (ready bool, err error) {
	p.view, err = view.Read(ctx, p.cfg.Store)
	if err != nil {
		return false, err
	}
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
	maxAge := listIdle
	if p.open() > 0 {
		maxAge = listBusy
	}
	listing := p.cfg.Listing.List(ctx, maxAge)
	p.now = p.cfg.Now().UTC()
	p.seen = observe.Group(p.view, spec, p.cfg.Cluster, listing, p.cfg.Reports)
	if p.held != nil && p.open() == 0 && p.seen.Now.Deletion == nil {
		// The clocks of the rollout stand still meanwhile (R93).
		p.seen.Now.Paused = true
	}
	return ctx.Err() == nil, ctx.Err()
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
	if fresh, err := p.cfg.Operator.TidyPolicies(ctx, p.lease, p.view, p.name); err != nil || fresh {
		return fresh, err
	}
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
	in := resync
	if p.open() > 0 {
		in = listBusy
	} else if listIdle < in {
		in = listIdle
	}
	if p.untold != nil {
		in = min(in, errorWait)
	}
	if !p.plan.Wake.IsZero() {
		in = min(in, p.plan.Wake.Sub(p.cfg.Now()))
	}
	return max(in, burst)
}

// same compares records as they are stored.
func same[T any](a, b T) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// platformName is the CVM's name, unique in the workspace.
func (p *pass) platformName(slot string) string { return p.cfg.Cluster + "-" + slot }

// completeSlots gives the planner's Slot records what the planner does not know.
func (p *pass) completeSlots(slots []group.SlotRecord) ([]group.SlotRecord, []store.Op, error) {
	out, given, err := addresses(p.view, p.name, slots)
	if err != nil {
		return nil, nil, err
	}
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
