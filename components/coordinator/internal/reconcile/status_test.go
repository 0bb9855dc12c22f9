package reconcile

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/status"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/raced"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// reporter is a leader that has decided, on a store of its own.
type reporter struct {
	t     *testing.T
	store *storetest.Memory
	lease store.Lease
	r     *Reconciler
	// refused are the transactions that the store refused; writes are the writes of Slots.
	refused, writes int
	figures         *status.Metrics
}

func newReporter(t *testing.T) *reporter {
	t.Helper()
	m := storetest.NewMemory()
	lease, err := m.Acquire(t.Context(), "coordinator-0")
	if err != nil {
		t.Fatal(err)
	}
	figures := status.NewMetrics()
	return &reporter{t: t, figures: figures, store: m, lease: lease, r: New(Config{Store: m, Log: slog.New(slog.DiscardHandler), Now: time.Now, Metrics: figures})}
}

// A new pass reports the plan.
func (r *reporter) tell(plan rollout.Plan) *pass {
	r.t.Helper()
	v, err := view.Read(r.t.Context(), r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &pass{Reconciler: r.r, log: r.r.log, lease: r.lease, name: "pg", view: v, plan: plan, now: time.Now()}
	r.store.OnCommit(func(ops []store.Op) storetest.Fault {
		if err := store.ValidateOps(ops); err != nil {
			r.refused++
		}
		for _, op := range ops {
			if strings.HasPrefix(op.Key, store.SlotStatusesOf("pg")) {
				r.writes++
			}
		}
		return storetest.None
	})
	defer r.store.OnCommit(nil)
	if err := p.report(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if err := p.reportRest(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *reporter) read() group.Status {
	r.t.Helper()
	st, err := view.ReadStatus(r.t.Context(), r.store, "pg")
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// crowd is a plan about n Slots with long texts.
func crowd(n int) rollout.Plan {
	p := rollout.Plan{Group: "pg", Status: group.Status{Group: "pg", Replicas: n, Message: strings.Repeat("m", 1<<20)}}
	long := strings.Repeat("why \xff\x00<\">\n", 10_000)
	for i := range n {
		slot := group.SlotName("pg", i)
		p.Status.Instances = append(p.Status.Instances, group.InstanceStatus{
			Group: "pg", Slot: slot, Ordinal: i, State: "Unavailable", Health: "unhealthy", Reason: long, LastRefusal: long, PlatformStatus: long,
		})
		p.Actions = append(p.Actions, rollout.Action{Slot: slot, Kind: operation.Update, Holds: []rollout.Hold{
			{Predicate: rollout.HoldQuorum, Message: long}, {Predicate: rollout.HoldBusy, Message: long},
		}})
	}
	return p
}

// TestAThousandSlotsWithLongReasonsAreListed: no record grows with the group, and the store
// refuses no transaction.
func TestAThousandSlotsWithLongReasonsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporter(t)
		slots := raced.Tenth(1000)
		plan := crowd(slots)
		r.tell(plan)
		st := r.read()
		if r.refused > 0 || len(st.Instances) != slots || st.Replicas != slots {
			t.Fatalf("%d transactions refused, %d instances told", r.refused, len(st.Instances))
		}
		for i, one := range st.Instances {
			if one.Ordinal != i || one.Reason == "" || len(one.Holds) != 2 || one.Holds[0].Predicate != rollout.HoldQuorum {
				t.Fatalf("instance %d reads %+v", i, one)
			}
		}
		r.writes = 0
		if r.tell(plan); r.writes != 0 {
			t.Errorf("%d slots written though nothing changed", r.writes)
		}
		plan.Status.Instances[7].State = "Available"
		if r.tell(plan); r.writes != 1 {
			t.Errorf("%d slots written, one changed", r.writes)
		}
		plan.Status.Instances = plan.Status.Instances[:3]
		r.tell(plan)
		if st := r.read(); len(st.Instances) != 3 {
			t.Errorf("%d instances are told of a group that has 3", len(st.Instances))
		}
		if err := r.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTickingNumbersOfSlotsAreNoNews: while the group is unsettled, they are written together with
// a status whose text ticks.
func TestTickingNumbersOfSlotsAreNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporter(t)
		plan := crowd(100)
		tick := func(lag int64) {
			for i := range plan.Status.Instances {
				plan.Status.Instances[i].Reason, plan.Status.Instances[i].LagBytes = fmt.Sprintf("%d bytes behind", lag), &lag
			}
			r.tell(plan)
		}
		tick(1)
		r.writes = 0
		for n := range int64(20) {
			tick(n + 2)
		}
		if r.writes != 0 {
			t.Errorf("%d writes of numbers that tick", r.writes)
		}
		wait(t.Context(), tickingEvery)
		plan.Status.Message = "1 s ago"
		tick(99)
		plan.Status.Message = "2 s ago"
		wait(t.Context(), tickingEvery)
		r.writes = 0
		tick(100)
		if r.writes == 0 || r.writes > store.MaxTxnOps {
			t.Errorf("%d writes with the status, want what fits beside it", r.writes)
		}
		if err := r.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnUnreadableStateOfASlotIsReplaced, and the state of an unknown Slot is removed.
func TestAnUnreadableStateOfASlotIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReporter(t)
		for _, slot := range []string{"pg-0", "pg-9"} {
			if err := r.store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.SlotStatusKey("pg", slot), Value: []byte(`{"newer":1}`)}); err != nil {
				t.Fatal(err)
			}
		}
		r.tell(crowd(2))
		v, err := view.Read(t.Context(), r.store)
		if err != nil || len(v.Bad) != 0 || len(v.Statuses["pg"].Value.Instances) != 2 {
			t.Errorf("bad %v, instances %v, %v", v.Bad, v.Instances, err)
		}
		if err := r.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
