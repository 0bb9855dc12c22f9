package vmmapi

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"cadre.dev/local/internal/cloud"
)

// Calls in any order, deaths and power cuts at the same time leave neither a process without a VM
// nor a VM whose state does not follow its owner's last call.
func TestCallsInAnyOrderLeaveNoProcess(t *testing.T) {
	r := newRig(t, cloud.Settings{AutoRestart: cloud.Duration(time.Millisecond), BootDelay: cloud.Duration(time.Millisecond), AcceptLag: cloud.Duration(time.Millisecond)})
	var ids []string
	for range 4 {
		ids = append(ids, r.create("host-a", nil))
	}
	ctx := context.WithoutCancel(t.Context())
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 36))
			for step := range 40 {
				id := ids[random.IntN(len(ids))]
				switch random.IntN(8) {
				case 0, 1:
					_ = r.cl.StartVM("host-a", id)
				case 2:
					_ = r.cl.StopVM("host-a", id)
				case 3:
					_ = r.cl.ShutdownVM("host-a", id)
				case 4:
					_ = r.cl.Kill(id)
				case 5:
					_, _ = r.cl.UpdateVM("host-a", id, cloud.VMUpdate{ComposeFile: document(strconv.Itoa(worker) + "-" + strconv.Itoa(step))})
				case 6:
					if worker == 0 {
						_ = r.cl.KillHost("host-a")
						_ = r.cl.ReturnHost("host-a")
					}
				case 7:
					_, _, _ = r.try(ctx, "host-a", "Status", obj{})
				}
			}
		})
	}
	all.Wait()
	for _, id := range ids { // also ends each shutdown that is under way
		r.must("host-a", "StartVm", obj{"id": id})
		r.must("host-a", "StopVm", obj{"id": id})
		r.awaitStatus("host-a", id, "stopped")
	}
	for _, id := range ids[:2] {
		r.must("host-a", "StartVm", obj{"id": id})
		r.await("host-a", id, "a VM that is on runs", func(v obj) bool { return v["status"] == "running" && v["instance_id"] != nil })
	}
	for _, id := range ids[2:] {
		r.awaitStatus("host-a", id, "stopped")
		if _, ok := r.cl.Machine(id); ok {
			t.Error("a stopped VM has a machine")
		}
	}
	for _, id := range ids {
		r.must("host-a", "RemoveVm", obj{"id": id})
		r.await("host-a", id, "it is gone", func(v obj) bool { return v == nil })
		if _, ok := r.cl.Machine(id); ok {
			t.Error("a removed VM has a machine")
		}
	}
}
