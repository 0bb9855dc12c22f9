package world

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// persons is what the operator knows and wants. Guarded by World.mu.
type persons struct {
	// want are the specs that they asked for last, of each group that is to be.
	want map[string]group.Spec
	// ending are the groups that they have deleted, until these are made anew; over those that are
	// never again.
	ending, over map[string]bool
	// acts counts what they did about a group that is deleted.
	acts int
	// rollouts and acting are the records that there are: acting by Slot, of the Operation that acts on
	// it. calls are the last ones for each Slot.
	rollouts map[string]operation.Rollout
	acting   map[string]operation.Operation
	calls    map[string]sentCall
}

// sentCall is what becomes of the n-th call of an Operation. told: the operator said so.
type sentCall struct {
	fate

	operation string
	n         int
	at        time.Time
	told      bool
}

func newPersons() persons {
	return persons{
		want: map[string]group.Spec{}, ending: map[string]bool{}, over: map[string]bool{},
		rollouts: map[string]operation.Rollout{}, acting: map[string]operation.Operation{}, calls: map[string]sentCall{},
	}
}

// sent notes what becomes of a call.
func (p *persons) sent(slot string, f fate) {
	op := p.acting[slot]
	p.calls[slot] = sentCall{fate: f, operation: op.ID, n: op.Call.Number, at: time.Now()}
}

// knowLocked takes what was written, as far as the operator goes by it.
func (w *World) knowLocked(e trace.Event) {
	p := &w.persons
	switch op := e.Operation; {
	case op != nil && !e.Deleted && op.Phase == operation.Acting:
		p.acting[op.Slot] = *op
	case op != nil && p.acting[op.Slot].ID == op.ID:
		delete(p.acting, op.Slot)
	case e.Rollout != nil && !e.Deleted:
		p.rollouts[e.Rollout.ID] = *e.Rollout
	case e.Spec != nil && e.Deleted:
		w.endLocked(e.Group)
	}
}

// endLocked: a group is gone with the disks of its members, so that its workload is none any more.
func (w *World) endLocked(name string) {
	was := w.workloads[name]
	*was = workload{kind: was.kind, epoch: 1}
}

// wants notes what a group is to be, and gives what it was to be before; now is false where it is being
// deleted, and made of that later.
func (w *World) wants(s group.Spec) (before group.Spec, now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.persons
	before = p.want[s.Name]
	if !p.over[s.Name] {
		p.want[s.Name] = s
	}
	return before, !p.over[s.Name] && !p.ending[s.Name]
}

// wanted are the specs of all groups that are to be.
func (w *World) wanted() map[string]group.Spec {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.persons.want)
}

// ends reports that the group is being deleted.
func (w *World) ends(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.persons.ending[name]
}

// allSay reports that r has every group that is to be, and no others.
func (w *World) allSay(r rest) bool {
	return maps.EqualFunc(r, w.wanted(), func(said, group.Spec) bool { return true })
}

// asksDeletion is how often a person looks whether the group is gone.
const asksDeletion = 2 * time.Second

// deletes has a group deleted with the disks of its members, and what comes after that.
func (w *World) deletes(ctx context.Context, f plan.Fault) {
	name, key := f.Target, store.DeleteGroupKey(f.Target)
	is := func(now bool) (was bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		was = w.persons.ending[name] || w.persons.over[name]
		w.persons.ending[name] = now
		w.persons.acts++
		return was
	}
	if is(true) {
		return // somebody has
	}
	w.put(ctx, key, store.DeleteGroup{Group: name, DeleteDisks: true, Reason: "it is over", By: "operator", At: time.Now()})
	if f.Kind == plan.Spare {
		w.wait(ctx, f.For)
		_ = w.store.Commit(ctx, store.Op{Kind: store.OpDelete, Key: key})
	} else {
		for there := true; there; {
			if !pause(ctx, asksDeletion) {
				return
			}
			_, err := w.store.Get(ctx, key)
			there = err == nil
		}
		if f.Kind == plan.Delete {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.persons.over[name] = true
			w.persons.acts++
			delete(w.persons.want, name)
			delete(w.persons.ending, name)
			return
		}
		w.wait(ctx, f.For)
	}
	w.mu.Lock()
	spec := w.persons.want[name]
	w.mu.Unlock()
	w.say("operator", "makes "+name+" anew")
	is(false)
	_ = w.Apply(ctx, spec) // its store is never cut from them
}

// looks is how often a person looks at what they wait for.
const looks = 5 * time.Second

// retries has a person let the group's rollout go on that failed.
func (w *World) retries(ctx context.Context, f plan.Fault) {
	for end := time.Now().Add(f.For); time.Now().Before(end) && pause(ctx, looks); {
		st, err := simulated.Status(ctx, w.store, f.Target)
		if err != nil || st.RolloutState != string(operation.FailedState) || w.ends(f.Target) {
			continue
		}
		w.request(ctx, store.QueueRequest{Kind: store.RequestRetry, Group: f.Target})
		return
	}
}

// request asks for q.
func (w *World) request(ctx context.Context, q store.QueueRequest) {
	w.mu.Lock()
	w.asks++
	q.ID = fmt.Sprintf("asked-%d", w.asks)
	w.mu.Unlock()
	q.Reason, q.By, q.At = "asked for", "operator", time.Now()
	w.put(ctx, store.QueueKey(q.ID), q)
}

// undoes has a person go back to the Revision before, where there is one.
func (w *World) undoes(ctx context.Context, name string) {
	st, err := simulated.Status(ctx, w.store, name)
	if err != nil || w.ends(name) {
		return
	}
	w.mu.Lock()
	p := &w.persons
	spec, is := p.want[name]
	var history []operation.Rollout
	for _, r := range p.rollouts {
		if r.Group == name {
			history = append(history, r)
		}
	}
	slices.SortFunc(history, func(a, b operation.Rollout) int {
		return cmp.Or(cmp.Compare(b.Generation, a.Generation), cmp.Compare(b.Term, a.Term), cmp.Compare(b.ID, a.ID))
	})
	w.mu.Unlock()
	to := rollout.Before(spec.Revision(), st.Stable, st.FailedRevisions, history)
	stored, err := w.store.Get(ctx, store.RevisionKey(to))
	if !is || to == "" || err != nil {
		return
	}
	back, err := spec.Back(*decode[group.RevisionRecord](stored.Value))
	if err != nil {
		return
	}
	w.say("operator", fmt.Sprintf("goes back to %.12s of %s", to, name))
	if _, now := w.wants(back); now {
		_ = w.Apply(ctx, back)
	}
}

// resolves has a person say how calls ended that nobody answers, for d. They say of none how it ended
// that may still take effect.
func (w *World) resolves(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && pause(ctx, looks); {
		for _, q := range w.unanswered() {
			w.request(ctx, q)
		}
	}
}

// unanswered is what can be said about calls without an answer and was not said yet.
func (w *World) unanswered() (out []store.QueueRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.persons
	for _, slot := range slices.Sorted(maps.Keys(p.acting)) {
		op, call := p.acting[slot], p.calls[slot]
		if call.operation != op.ID || call.n != op.Call.Number || !call.silent || call.late > 0 || call.told || time.Since(call.at) < 2*callLimit {
			continue
		}
		as := store.ResolvedFailed
		if call.applied {
			as = store.ResolvedDone
		}
		call.told = true
		p.calls[slot] = call
		out = append(out, store.QueueRequest{Kind: store.RequestResolve, Group: op.Group, Operation: op.ID, As: as})
	}
	return out
}
