package world

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// operators is the operator's knowledge and intent. Guarded by World.mu.
type operators struct {
	// want are the last requested specs, of each group that is to exist.
	want map[string]group.Spec
	// ending are the groups under deletion, until they are made again; over are the permanently
	// deleted groups.
	ending, over map[string]bool
	// acts counts the operator's actions about a deleted group.
	acts int
	// rollouts are the existing records, and acting the acting Operation of each Slot. calls are
	// the last calls for each Slot.
	rollouts map[string]operation.Rollout
	// asked are the Slots whose last status names a hold that an operator ends, by their groups.
	asked map[string]map[string]bool
	// shut counts the operators who keep the gate of a group closed.
	shut   map[string]int
	acting map[string]operation.Operation
	calls  map[string]sentCall
}

// sentCall is the fate of the n-th call of an Operation, and whether the operator has reported it.
type sentCall struct {
	fate

	operation string
	n         int
	at        time.Time
	told      bool
}

func newOperators() operators {
	return operators{
		asked: map[string]map[string]bool{}, shut: map[string]int{},
		want: map[string]group.Spec{}, ending: map[string]bool{}, over: map[string]bool{},
		rollouts: map[string]operation.Rollout{}, acting: map[string]operation.Operation{}, calls: map[string]sentCall{},
	}
}

// sent records the fate of a call.
func (p *operators) sent(slot string, f fate) {
	op := p.acting[slot]
	p.calls[slot] = sentCall{fate: f, operation: op.ID, n: op.Call.Number, at: time.Now()}
}

// knowLocked records a write, as far as the operator uses it.
func (w *World) knowLocked(e trace.Event) {
	p := &w.operators
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

// endLocked: a group is gone with the disks of its members, and with that its workload.
func (w *World) endLocked(name string) {
	was := w.workloads[name]
	*was = workload{kind: was.kind, epoch: 1}
}

// asksLocked records whether the status of a Slot names a hold that an operator ends.
func (w *World) asksLocked(e trace.Event, value []byte) {
	if !strings.HasPrefix(e.Key, "groups/"+e.Group+"/slots/") {
		return
	}
	if w.operators.asked[e.Group] == nil {
		w.operators.asked[e.Group] = map[string]bool{}
	}
	if delete(w.operators.asked[e.Group], e.Slot); !e.Deleted && (bytes.Contains(value, heldByGate) || bytes.Contains(value, heldByStage)) {
		w.operators.asked[e.Group][e.Slot] = true
	}
}

// waitsForOperator reports that a Slot of the group waits for an operator's promotion or for a gate.
func (w *World) waitsForOperator(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.operators.asked[name]) > 0
}

// wants records the group's wanted spec, and returns the spec before. now is false while the group
// is under deletion; the spec is then used later.
func (w *World) wants(s group.Spec) (before group.Spec, now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.operators
	before = p.want[s.Name]
	if !p.over[s.Name] {
		p.want[s.Name] = s
	}
	return before, !p.over[s.Name] && !p.ending[s.Name]
}

// wanted are the specs of all groups that are to exist.
func (w *World) wanted() map[string]group.Spec {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.operators.want)
}

// ends reports that the group is being deleted.
func (w *World) ends(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.operators.ending[name]
}

// allSay reports that r has exactly the groups that are to exist.
func (w *World) allSay(r rest) bool {
	return maps.EqualFunc(r, w.wanted(), func(said, group.Spec) bool { return true })
}

// asksDeletion is how often an operator checks whether the group is gone.
const asksDeletion = 2 * time.Second

// deletes deletes a group with the disks of its members, and does the plan's next action about it.
func (w *World) deletes(ctx context.Context, f plan.Fault) {
	name, key := f.Target, store.DeleteGroupKey(f.Target)
	is := func(now bool) (was bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		was = w.operators.ending[name] || w.operators.over[name]
		w.operators.ending[name] = now
		w.operators.acts++
		return was
	}
	if is(true) {
		return // already deleted
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
			w.operators.over[name] = true
			w.operators.acts++
			delete(w.operators.want, name)
			delete(w.operators.ending, name)
			return
		}
		w.wait(ctx, f.For)
	}
	w.mu.Lock()
	spec := w.operators.want[name]
	w.mu.Unlock()
	w.say("operator", "makes "+name+" anew")
	is(false)
	_ = w.Apply(ctx, spec) // the operator's store connection is never cut
}

// looks is how often an operator checks a condition that they wait for.
const looks = 5 * time.Second

// retries makes an operator retry the group's failed rollout.
func (w *World) retries(ctx context.Context, f plan.Fault) {
	for end := time.Now().Add(f.For); time.Now().Before(end) && pause(ctx, looks); {
		st, err := simulated.Status(ctx, w.store, f.Target)
		if err != nil || !operation.RolloutState(st.RolloutState).Failed() || w.ends(f.Target) {
			continue
		}
		w.request(ctx, store.QueueRequest{Kind: store.RequestRetry, Group: f.Target})
		return
	}
}

// request sends q.
func (w *World) request(ctx context.Context, q store.QueueRequest) {
	w.mu.Lock()
	w.asks++
	q.ID = fmt.Sprintf("asked-%d", w.asks)
	w.mu.Unlock()
	q.Reason, q.By, q.At = "asked for", "operator", time.Now()
	w.put(ctx, store.QueueKey(q.ID), q)
}

// undoes makes an operator return to the earlier Revision, where there is one.
func (w *World) undoes(ctx context.Context, name string) {
	st, err := simulated.Status(ctx, w.store, name)
	if err != nil || w.ends(name) {
		return
	}
	w.mu.Lock()
	p := &w.operators
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

// resolves makes an operator report the outcome of unanswered calls, for d. A call that may still
// take effect is left out.
func (w *World) resolves(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && pause(ctx, looks); {
		for _, q := range w.unanswered() {
			w.request(ctx, q)
		}
	}
}

// unanswered are the reports about unanswered calls that were not sent yet.
func (w *World) unanswered() (out []store.QueueRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.operators
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
