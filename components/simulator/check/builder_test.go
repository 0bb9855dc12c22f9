package check

import (
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// began is the wall clock's time at the start of a hand-made run.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// run builds a trace by hand: each method adds an event and returns the run. Each takes a second,
// unless after sets another time.
type run struct {
	t     trace.Trace
	now   time.Duration
	index uint64
	// together: events are of one transaction.
	together bool
	term     uint64
	by       string
	calls    int
	ops      map[string]*operation.Operation
}

func start() *run { return &run{term: 1, by: "coordinator-0", ops: map[string]*operation.Operation{}} }

// then changes the last added event.
func (r *run) then(change func(e *trace.Event)) *run {
	change(&r.t[len(r.t)-1])
	return r
}

func (r *run) add(e trace.Event) *run {
	if !r.together {
		r.now += time.Second
	}
	e.At = r.now
	r.t = append(r.t, e)
	return r
}

func (r *run) after(d time.Duration) *run {
	r.now += d
	return r
}

// lead makes another coordinator the writer, with a Term.
func (r *run) lead(by string, term uint64) *run {
	r.by, r.term = by, term
	return r
}

func (r *run) commit(e trace.Event) *run {
	if !r.together {
		r.index++
	}
	e.Kind, e.By, e.Index, e.Term = trace.Committed, r.by, r.index, r.term
	return r.add(e)
}

// removed makes the last write a deletion.
func (r *run) removed() *run { return r.then(func(e *trace.Event) { e.Deleted = true }) }

// spec of group pg with so many replicas of a workload.
func (r *run) spec(workload string, replicas int, change ...func(*group.Spec)) *run {
	return r.commit(trace.Event{Key: "groups/pg/accepted", Group: "pg", Spec: specOf(workload, replicas, change...)})
}

func specOf(workload string, replicas int, change ...func(*group.Spec)) *group.Spec {
	s := group.Spec{Name: "pg", Platform: "phala", Replicas: replicas, Workload: group.Workload{Kind: workload}}
	for _, c := range change {
		c(&s)
	}
	s.Normalize()
	return &s
}

func maxUnavailable(n int) func(*group.Spec) {
	return func(s *group.Spec) { s.UpdatePolicy.MaxUnavailableFixed = &n }
}

// members of pg serve, for long.
func (r *run) members(slots ...string) *run {
	for _, slot := range slots {
		r.serves(slot)
	}
	return r.after(time.Minute)
}

func (r *run) serves(slot string) *run { return r.servesAs(slot, "boot-1-of-"+slot) }

func (r *run) servesAs(slot, boot string) *run {
	return r.add(trace.Event{Kind: trace.Served, By: slot, Group: "pg", Slot: slot, Boot: boot})
}

func (r *run) stops(slot string) *run {
	return r.add(trace.Event{Kind: trace.Stopped, By: slot, Group: "pg", Slot: slot, Boot: "boot-1-of-" + slot})
}

// hangs makes the workload of slot hang.
func (r *run) hangs(slot string) *run {
	return r.add(trace.Event{Kind: trace.Faulted, By: "fault", Text: "hang " + slot + " for 1m0s"}).stops(slot)
}

// mutes cuts the agent of slot off from all coordinators.
func (r *run) mutes(slot string) *run {
	return r.add(trace.Event{Kind: trace.Muted, By: "fault", Group: "pg", Slot: slot})
}

// lost: the platform lost the Slot's CVM.
func (r *run) lost(slot string) *run {
	return r.add(trace.Event{Kind: trace.Lost, By: "fault", Group: "pg", Slot: slot})
}

func (r *run) leads(slot string) *run {
	return r.add(trace.Event{Kind: trace.Led, By: slot, Group: "pg", Slot: slot})
}

// op writes the Operation of that id for a Slot, in the next phase; it keeps the earlier fields. By
// default it is an update of rollout "r" from "old" to "new".
func (r *run) op(id, slot string, phase operation.Phase, change ...func(*operation.Operation)) *run {
	op := operation.Operation{ID: id, Group: "pg", Slot: slot, Kind: operation.Update, Rollout: "r", From: "old", To: "new", CVM: operation.CVM{VMUUID: "vm-of-" + slot}}
	if before := r.ops[id]; before != nil {
		op = *before
	}
	entered := operation.PhaseTimes{}
	for p, at := range op.Entered {
		entered[p] = at
	}
	now := began.Add(r.now)
	entered[phase] = now
	op.Phase, op.Entered, op.Term = phase, entered, r.term
	switch phase {
	case operation.Draining:
		op.Times.DrainBy = now.Add(2 * time.Minute)
	case operation.Acting:
		op.Call.Number++
		op.Call.IssuedAt, op.Call.Outcome, op.Call.Part = now, "", operation.PartCompose
	case operation.Booting:
		op.Call.Outcome = operation.OutcomeDone
	case operation.Failed:
		op.Failure.Cause, op.Reason = operation.CauseDeadline, "not available"
	case operation.Drained, operation.Joining, operation.Settling, operation.Done, operation.Aborted:
	}
	for _, c := range change {
		c(&op)
	}
	r.ops[id] = &op
	return r.commit(trace.Event{Key: "operations/" + id, Group: "pg", Slot: slot, Operation: &op})
}

// drained: the Slot's agent drained it.
func (r *run) drained(slot string) *run {
	return r.add(trace.Event{Kind: trace.Drained, By: slot, Group: "pg", Slot: slot})
}

// ops in several phases, one after the other.
func (r *run) phases(id, slot string, phases ...operation.Phase) *run {
	for _, p := range phases {
		r.op(id, slot, p)
	}
	return r
}

func kind(k operation.Kind, part operation.Part) func(*operation.Operation) {
	return func(op *operation.Operation) { op.Kind, op.Call.Part = k, part }
}

func skipDrain(op *operation.Operation) { op.Way.SkipDrain = true }

// allowed is the policy of a Slot: revision r is allowed as "hash-of-r", numbered in order.
func (r *run) allowed(slot string, revisions ...string) *run {
	p := &policy.SlotPolicy{Group: "pg", Slot: slot, AppID: "app", InstanceID: "instance-of-" + slot, Epoch: 1, Term: r.term}
	for i, rev := range revisions {
		p.Allowed = append(p.Allowed, policy.AllowedRevision{Revision: rev, ComposeHash: "hash-of-" + rev, Number: uint64(i + 1)})
	}
	return r.commit(trace.Event{Key: "policy/slots/" + slot, Group: "pg", Slot: slot, Policy: p})
}

// gate changes the last written policy.
func (r *run) gate(change func(*policy.SlotPolicy)) *run {
	return r.then(func(e *trace.Event) { change(e.Policy) })
}

// admitted is a Boot of the Slot's instance, at a revision. An admission sets no leader.
func (r *run) admitted(slot, boot, revision string, generation uint64) *run {
	a := &policy.Admission{
		Group: "pg", Slot: slot, BootID: boot, InstanceID: "instance-of-" + slot, AppID: "app", Revision: revision,
		Epoch: 1, Generation: generation,
	}
	return r.commit(trace.Event{Key: "admissions/" + slot, Group: "pg", Slot: slot, Boot: boot, Admission: a}).
		then(func(e *trace.Event) { e.By, e.Term = "", 0 })
}

// boot changes the last written admission.
func (r *run) boot(change func(*policy.Admission)) *run {
	return r.then(func(e *trace.Event) { change(e.Admission) })
}

// binds is the record of a Slot that has CVM "vm-of-<slot>".
func (r *run) binds(slot string) *run {
	_, ordinal, _ := group.ParseSlot(slot)
	return r.commit(trace.Event{Key: "slots/pg/" + slot, Group: "pg", Slot: slot, Bound: &group.SlotRecord{
		Group: "pg", Slot: slot, Ordinal: ordinal, PlatformName: "sim-" + slot, VMUUID: "vm-of-" + slot, InstanceID: "instance-of-" + slot,
	}})
}

func (r *run) binding(change func(*group.SlotRecord)) *run {
	return r.then(func(e *trace.Event) { change(e.Bound) })
}

// operator writes at a key.
func (r *run) operator(key string) *run {
	return r.commit(trace.Event{Key: key}).then(func(e *trace.Event) { e.By, e.Term = "operator", 0 })
}

// givesUp permits the deletion of the disks of these Slots of pg only.
func (r *run) givesUp(slots ...string) *run {
	return r.operator("control/delete-disks/pg").then(func(e *trace.Event) { e.Group, e.GivenUp = "pg", &store.DeleteDisks{Group: "pg", Slots: slots} })
}

// deletes requests the deletion of pg.
func (r *run) deletes(keep bool) *run {
	return r.operator("control/delete/pg").then(func(e *trace.Event) {
		e.Group, e.Ending = "pg", &store.DeleteGroup{Group: "pg", KeepCVMs: keep, DeleteDisks: !keep}
	})
}

// asks sends a request about a Slot, with its disk.
func (r *run) asks(id string, kind store.RequestKind, slot string) *run {
	return r.operator("control/queue/" + id).then(func(e *trace.Event) {
		e.Group, e.Slot, e.Asked = "pg", slot, &store.QueueRequest{ID: id, Kind: kind, Group: "pg", Slot: slot, DeleteDisk: true}
	})
}

// resolves reports how an Operation ended.
func (r *run) resolves(id, op string) *run {
	return r.operator("control/queue/" + id).then(func(e *trace.Event) {
		e.Group, e.Asked = "pg", &store.QueueRequest{ID: id, Kind: store.RequestResolve, Operation: op, As: store.ResolvedFailed}
	})
}

// called is the next call; effected and answered are about a call by its number.
func (r *run) called(verb cloud.Verb, slot string, change ...func(*trace.Event)) *run {
	r.calls++
	e := trace.Event{Kind: trace.Called, By: r.by, Group: "pg", Slot: slot, Call: trace.Call{
		Call: cloud.Call{Verb: verb, Name: "sim-" + slot, VMUUID: "vm-of-" + slot}, ID: r.calls, Latest: r.now + 3*time.Minute,
	}}
	if verb == cloud.Create || verb == cloud.Update {
		e.Call.Hash = "hash-of-new"
	}
	for _, c := range change {
		c(&e)
	}
	return r.add(e)
}

func (r *run) effected(id int) *run {
	return r.about(trace.Effected, id)
}

func (r *run) answered(id int, outcome trace.Outcome) *run {
	return r.about(trace.Answered, id).then(func(e *trace.Event) { e.Outcome = outcome })
}

func (r *run) about(kind trace.Kind, id int) *run {
	for _, e := range r.t {
		if e.Kind == trace.Called && e.Call.ID == id {
			e.Kind = kind
			return r.add(e)
		}
	}
	return r.add(trace.Event{Kind: kind, By: r.by, Call: trace.Call{ID: id}})
}

// rollout writes the record of that id of pg.
func (r *run) rollout(id string, state operation.RolloutState, verdict *operation.Verdict) *run {
	return r.commit(trace.Event{Key: "rollouts/" + id, Group: "pg", Rollout: &operation.Rollout{ID: id, Group: "pg", State: state, Verdict: verdict}})
}

// listed are the voters of pg's set.
func (r *run) listed(voters ...string) *run {
	return r.add(trace.Event{Kind: trace.Listed, Group: "pg", Voters: voters})
}

// healed: all faults end now.
func (r *run) healed() *run { return r.add(trace.Event{Kind: trace.Healed, By: "fault"}) }

func (r *run) crashed(by string) *run { return r.add(trace.Event{Kind: trace.Crashed, By: by}) }

// settled ends the run: the platform has the CVMs of these Slots, and pg gives a reason.
func (r *run) settled(reason string, slots ...string) *run {
	e := trace.Event{Kind: trace.Settled, Resting: map[string]string{"pg": reason}}
	for _, slot := range slots {
		e.CVMs = append(e.CVMs, trace.CVM{Name: "sim-" + slot, VMUUID: "vm-of-" + slot, InstanceID: "instance-of-" + slot})
	}
	return r.add(e)
}
