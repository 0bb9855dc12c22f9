package reconcile_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/core/route"
	"cadre.dev/platform"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// vanish removes a CVM without the coordinators.
func (w *world) vanish(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cloud.RemoveLocked(w.memberLocked(slot).cvm, "vanished")
}

func (w *world) instance(slot string) group.InstanceStatus {
	for _, i := range w.status().Instances {
		if i.Slot == slot {
			return i
		}
	}
	return group.InstanceStatus{}
}

func (w *world) availableSlots(n int) func() bool {
	return func() bool { return w.status().Available == n }
}

// request sends a request to the leader.
func (w *world) request(q store.QueueRequest) {
	w.t.Helper()
	q.Reason, q.By, q.At = "it has to be", "somebody", time.Now()
	if err := q.Check(); err != nil {
		w.t.Fatal(err)
	}
	w.putJSON(store.QueueKey(q.ID), q)
}

func (w *world) operationOf(request string) operation.Operation {
	for _, o := range w.view().Operations {
		if o.Value.Request.ID == request {
			return o.Value
		}
	}
	return operation.Operation{}
}

// TestChangesOfShapeReachThePlatform changes every field of the shape at once: one Operation per
// member, each change once, and complete only when the platform shows it.
func TestChangesOfShapeReachThePlatform(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		first := spec("one")
		first.Template.DiskGB = 20
		w.apply(first)
		w.until("creation", 2*time.Minute, w.availableSlots(3))
		next := first
		next.Template.InstanceType, next.Template.OSImage, next.Template.DiskGB = "tdx.large", "dstack-0.5.8", 40
		w.apply(next)
		w.until("the change", 10*time.Minute, func() bool {
			st := w.status()
			return st.Stable == next.Revision() && st.Available == 3
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, slot := range []string{"pg-0", "pg-1", "pg-2"} {
			c := w.memberLocked(slot)
			if c.InstanceType != "tdx.large" || c.OSImage != "dstack-0.5.8" || c.DiskGB != 40 {
				t.Errorf("%s: %s, %s, %d GB", slot, c.InstanceType, c.OSImage, c.DiskGB)
			}
		}
		if calls := strings.Join(w.calls, ", "); strings.Count(calls, "resize") != 3 || strings.Count(calls, "os-image") != 3 || strings.Contains(calls, "update") {
			t.Errorf("calls %s, want each change once a member", calls)
		}
		if w.away > 1 {
			t.Errorf("%d members were away at once", w.away)
		}
	})
}

// TestALostCVMIsReplaced on an operator's request, and not before.
func TestALostCVMIsReplaced(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		old := w.instance("pg-1")
		w.vanish("pg-1")
		w.until("the loss is told", time.Minute, func() bool { return w.instance("pg-1").State == "Vanished" })
		tick(t.Context(), time.Minute)
		if got := w.made("create"); len(got) != 3 {
			t.Fatalf("made anew without a word: %v", got)
		}
		q := store.QueueRequest{ID: "replace-1", Kind: store.RequestReplace, Slot: "pg-1", DeleteDisk: true}
		w.request(q)
		w.until("the replacement", 5*time.Minute, w.availableSlots(3))
		now, record := w.instance("pg-1"), w.view().Slots["pg-1"].Value
		if now.InstanceID == old.InstanceID || record.Incarnation != 1 || len(record.Lineage) != 1 || record.Lineage[0].InstanceID != old.InstanceID {
			t.Errorf("instance %s, was %s; record %+v", now.InstanceID, old.InstanceID, record)
		}
		if op := w.operationOf("replace-1"); op.Actor != operation.ActorOperator || op.Rollout != "" || op.Request.Note != "it has to be" || op.Request.By != "somebody" {
			t.Errorf("operation %+v", op)
		}
		if w.view().Admissions["pg-1"].Value.InstanceID == old.InstanceID {
			t.Error("the lost one is still admitted")
		}
		calls := len(w.made(""))
		w.request(q) // the same request twice is one replacement
		w.until("the request is spent", time.Minute, func() bool { return len(w.view().Queue) == 0 })
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != calls {
			t.Errorf("done twice: %v", got[calls:])
		}
		if st := w.status(); st.RolloutState != string(operation.Complete) {
			t.Errorf("the rollout is %s: %s", st.RolloutState, st.Message)
		}
	})
}

// TestALivingCVMIsReplacedAfterItIsGone: never two CVMs of one Slot (R128).
func TestALivingCVMIsReplacedAfterItIsGone(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		victim := w.leader
		w.mu.Unlock()
		w.request(store.QueueRequest{ID: "replace-2", Kind: store.RequestReplace, Slot: victim, DeleteDisk: true})
		w.until("the deletion", 2*time.Minute, func() bool { return len(w.made("delete")) == 1 })
		w.until("the replacement", 5*time.Minute, w.availableSlots(3))
		if got := w.made("transfer"); len(got) != 1 {
			t.Errorf("transfers %v: the leader is drained first", got)
		}
		if got := w.made("create"); len(got) != 4 {
			t.Errorf("creates %v", got)
		}
	})
}

// TestAGroupIsDeleted with its CVMs, or without.
func TestAGroupIsDeleted(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep %t", keep), func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				s := spec("one")
				s.PreservedState.Disk = "data"
				w.apply(s)
				w.until("creation", 2*time.Minute, w.availableSlots(3))
				w.putJSON(store.ServiceMeshKey("pg"), group.ServiceMesh{Group: "pg"})
				w.putJSON(store.RouteKey("pg-master"), route.Record{Route: "pg-master", VIP: netip.MustParseAddr("127.10.0.1"), Group: "pg"})
				for n := range 100 { // more than one transaction removes
					w.putJSON(store.OverrideKey(store.OverrideGate, fmt.Sprintf("pg/gate%d", n)), store.Override{State: group.GateOpen})
				}
				w.put(store.OverrideKey(store.OverrideGate, "pg/balancer/pg-0"), []byte("unreadable"))
				w.putJSON(store.OverrideKey(store.OverrideGate, "web/gate0"), store.Override{State: group.GateOpen})
				w.putJSON(store.DeleteGroupKey("pg"), store.DeleteGroup{Group: "pg", KeepCVMs: keep, DeleteDisks: !keep, Reason: "over", By: "somebody", At: time.Now()})
				w.until("the end", 10*time.Minute, func() bool {
					v := w.view()
					return len(v.Specs) == 0 && len(v.Slots) == 0 && len(v.Deletes) == 0
				})
				want := 0
				if keep {
					want = 3
				}
				w.mu.Lock()
				left := len(w.membersLocked())
				w.mu.Unlock()
				if left != want {
					t.Errorf("%d CVMs are left, want %d", left, want)
				}
				v := w.view()
				if settings := v.Overrides[store.OverrideGate]; len(settings) != 1 || settings["web/gate0"].Index == 0 {
					t.Errorf("%d settings of gates are left, want the one of another group", len(settings))
				}
				if len(v.ServiceMeshes) != 0 || len(v.Routes) != 1 {
					t.Errorf("%d meshes and %d addresses are left, want the address alone", len(v.ServiceMeshes), len(v.Routes))
				}
				if len(v.Policies) != 0 || len(v.Admissions) != 0 || len(v.Statuses) != 0 || len(v.Accepted) != 0 {
					t.Errorf("left behind: %d policies, %d admissions, %d statuses, %d accepted", len(v.Policies), len(v.Admissions), len(v.Statuses), len(v.Accepted))
				}
				tick(t.Context(), time.Minute)
				if got := w.made("create"); len(got) != 3 {
					t.Errorf("made anew: %v", got)
				}
			})
		})
	}
}

// TestARefusedCreateIsNoHotLoop: the platform refuses permanently.
func TestARefusedCreateIsNoHotLoop(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.mu.Lock()
		w.fault = func(call string) (bool, error) {
			return !strings.HasPrefix(call, "create demo-pg-2"), refusedIf(strings.HasPrefix(call, "create demo-pg-2"))
		}
		w.mu.Unlock()
		w.apply(spec("one"))
		w.until("the hold", 30*time.Minute, func() bool { return w.waitsFor("pg-2", rollout.HoldRefused) })
		asked := len(w.made("create demo-pg-2"))
		if asked < 3 || asked > 10 {
			t.Errorf("asked %d times", asked)
		}
		tick(t.Context(), 5*time.Minute)
		if got := len(w.made("create demo-pg-2")); got != asked {
			t.Errorf("asked %d times more while it is held", got-asked)
		}
		w.mu.Lock()
		w.fault = nil
		w.mu.Unlock()
		w.request(store.QueueRequest{ID: "retry-1", Kind: store.RequestRetry, Group: "pg"})
		w.until("the retry", 5*time.Minute, w.complete("one"))
	})
}

// TestR118_ARefusedReplacementIsNotSpent: the platform accepts the replacement of a lost CVM only
// after some time.
func TestR118_ARefusedReplacementIsNotSpent(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		s := spec("one")
		s.AutoHealing = &group.AutoHealing{Replace: group.ReplaceAuto}
		w.apply(s)
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		w.fault = func(call string) (bool, error) {
			return !strings.HasPrefix(call, "create"), refusedIf(strings.HasPrefix(call, "create"))
		}
		w.mu.Unlock()
		w.vanish("pg-1")
		w.until("refusals", 10*time.Minute, func() bool { return len(w.made("create demo-pg-1")) == 4 })
		w.mu.Lock()
		w.fault = nil
		w.mu.Unlock()
		w.until("another CVM", 20*time.Minute, w.complete("one"))
	})
}

func refusedIf(refused bool) error {
	if refused {
		return fmt.Errorf("%w: no capacity", platform.ErrRefused)
	}
	return nil
}

// waitsFor: the status reports that the predicate holds the Slot.
func (w *world) waitsFor(slot, predicate string) bool {
	return strings.Contains(w.status().Message, slot) && strings.Contains(w.status().Message, "waits: "+predicate+":")
}

// TestTheLastLookStopsACall: the world changes between the record and the call.
func TestTheLastLookStopsACall(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		before := len(w.made("update"))
		var acting atomic.Bool
		w.store.OnCommit(func(ops []store.Op) (none storetest.Fault) {
			for _, op := range ops {
				if strings.HasPrefix(op.Key, store.OperationsPrefix) && strings.Contains(string(op.Value), `"ACTING"`) && acting.CompareAndSwap(false, true) {
					if err := w.store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.OverrideKey(store.OverridePause, "pg"), Value: []byte(`{"reason":"stop","by":"somebody","at":"2000-01-01T00:00:00Z"}`)}); err != nil {
						t.Error(err)
					}
				}
			}
			return none
		})
		w.apply(spec("two"))
		w.until("the record", 2*time.Minute, acting.Load)
		tick(t.Context(), 2*time.Minute)
		if got := w.made("update"); len(got) != before {
			t.Errorf("called though it was paused before: %v", got)
		}
		if got := w.status(); got.Available != 3 {
			t.Errorf("%d available: %s", got.Available, got.Message)
		}
	})
}
