package reconcile

import (
	"context"
	"fmt"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/queue"
	"cadre.dev/core/rollout"
)

// line has the facts of all groups for the limits of the cluster. The groups' passes run at the same time, and the
// watched records are a moment old, so two groups could take the last place. Under one Lease only its holder begins
// steps: it reads the facts once, and then each pass writes those of its group.
type line struct {
	// turn is held by the one pass that begins limited work, from its decision until its records are written.
	turn turn
	// changed has capacity 1: one signal stands for all changes of the facts.
	changed chan struct{}

	mu     turn
	groups map[string]queue.Group // guarded by mu; nil: not read
	term   uint64                 // guarded by mu; of the Lease that groups was read under
}

// readLine reads the facts of all groups, unless they were read under this Lease.
func (p *pass) readLine(ctx context.Context) error {
	l := &p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.view.Limits.Any() {
		l.groups = nil // groups that begin work without limits enter nothing here
		return nil
	}
	if l.groups != nil && l.term == p.lease.Term() {
		return nil
	}
	all, err := view.Read(ctx, p.cfg.Store)
	if err != nil {
		return fmt.Errorf("read the facts of all groups for the limits of the cluster: %w", err)
	}
	l.groups, l.term = map[string]queue.Group{}, p.lease.Term()
	for _, g := range observe.Places(all) {
		l.groups[g.Name] = g
	}
	return nil
}

// limits returns the limits with the newest facts of all groups; nil: there are none.
func (p *pass) limits() *rollout.Queue {
	if !p.view.Limits.Any() {
		return nil
	}
	q := &rollout.Queue{Limits: p.view.Limits.Of(), Unread: p.view.Limits.Unread}
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	for _, g := range p.line.groups {
		q.Groups = append(q.Groups, g)
	}
	return q
}

// recordInTurn records the plan. A plan that begins limited work is made again from the facts of this moment, and no
// other pass begins limited work until it is recorded.
func (p *pass) recordInTurn(ctx context.Context) (changed bool, err error) {
	if p.seen.Now.Queue != nil && p.plan.Limited() {
		p.line.turn.Lock()
		defer p.line.turn.Unlock()
		p.decide()
	}
	if g, ok := p.plan.Place(p.seen.Spec.PriorityOrDefault()); ok {
		p.line.enter(g)
	}
	return p.record(ctx)
}

func (l *line) enter(g queue.Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups == nil || l.groups[g.Name] == g {
		return
	}
	l.groups[g.Name] = g
	l.announceLocked()
}

// announceLocked lets the groups be woken that may have a place now.
func (l *line) announceLocked() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// leave removes a group from the queue, with its places if it is gone. Nothing waits for a group whose passes do not
// reach a plan.
func (l *line) leave(name string, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, ok := l.groups[name]
	switch {
	case !ok:
	case gone:
		delete(l.groups, name)
		l.announceLocked()
	default:
		g.Step.Ready, g.Create.Ready = false, false
		l.groups[name] = g
		l.announceLocked()
	}
}

// next returns the groups that may begin limited work now.
func (l *line) next(limits queue.Limits) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	groups := make([]queue.Group, 0, len(l.groups))
	for _, g := range l.groups {
		groups = append(groups, g)
	}
	return queue.Next(limits, groups)
}
