package vmmapi

import (
	"context"
	"strings"
	"testing"
	"time"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fault"
)

func TestAHostSeesItsOwnVMsOnly(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.create("host-a", nil)
	if r.info("host-b", id) != nil || r.must("host-b", "Status", obj{})["total"] != 0.0 {
		t.Error("the other host shows the VM")
	}
	r.refused("Failed to start VM", "host-b", "StartVm", obj{"id": id})
	r.refused("Failed to stop VM", "host-b", "StopVm", obj{"id": id})
	r.refused("VM not found", "host-b", "RemoveVm", obj{"id": id})
	r.refused("Failed to read manifest", "host-b", "UpdateVm", obj{"id": id, "vcpu": 2})
}

func TestAHostWithoutPowerLosesItsVMsUntilItReturns(t *testing.T) {
	r := newRig(t, cloud.Settings{AutoRestart: cloud.Duration(time.Millisecond)})
	dead, off, alive := r.running("host-a", nil), r.create("host-a", obj{"name": "off"}), r.running("host-b", obj{"name": "other"})
	r.localCall(200, "POST", "/host-a/kill", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := r.try(ctx, "host-a", "CreateVm", config("late")); err == nil {
		t.Error("a host without power answers")
	}
	if info, ok := r.cl.VMInfo("host-a", dead); !ok || info.Process {
		t.Errorf("a VM of a host without power: %+v", info)
	}
	if v := r.info("host-b", alive); v["status"] != "running" {
		t.Errorf("a VM of another host: %v", v)
	}
	r.localCall(400, "PUT", "/host-a", obj{"endpoint": "up"})
	boots := len(r.hv.Boots("vm"))
	r.localCall(200, "POST", "/host-a/return", nil)
	r.await("host-a", dead, "it is up again", func(v obj) bool { return v["status"] == "running" && v["boot_progress"] == "done" })
	if v := r.info("host-a", off); v["status"] != "stopped" {
		t.Errorf("a VM that was off: %v", v)
	}
	if n := len(r.hv.Boots("vm")); boots != 1 || n != 2 {
		t.Errorf("%d boots before the return, %d after", boots, n)
	}
	if list := r.must("host-a", "Status", obj{"keyword": "late"}); list["total"] != 0.0 {
		t.Errorf("a call to a host without power was carried out: %v", list)
	}
	r.localCall(400, "POST", "/host-a/return", nil)
	r.localCall(404, "POST", "/host-c/kill", nil)
}

func TestAnEndpointThatHangsCarriesNothingOut(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.running("host-a", nil)
	r.localCall(200, "PUT", "/host-a", obj{"endpoint": "hang"})
	answered := make(chan error, 1)
	go func() {
		_, _, err := r.try(context.WithoutCancel(t.Context()), "host-a", "StopVm", obj{"id": id})
		answered <- err
	}()
	for !strings.Contains(r.localCall(200, "GET", "", nil), `"endpoint":"hang","name":"host-a","power":true,"vms":1,"waiting":1`) {
		time.Sleep(time.Millisecond) // until the call is there
	}
	if m, ok := r.cl.Machine(id); !ok {
		t.Error("the VM of a host whose endpoint hangs is gone")
	} else if m.InstanceID() == "" {
		t.Error("it has no instance id")
	}
	r.localCall(200, "PUT", "/host-a", obj{"endpoint": "refuse", "for": "10ms"})
	if err := <-answered; err == nil {
		t.Error("the hanging call has an answer")
	}
	// The endpoint comes back on its own.
	deadline := time.Now().Add(20 * time.Second)
	for {
		code, _, err := r.try(t.Context(), "host-a", "Version", "")
		if err == nil && code == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the endpoint stays closed: %d, %v", code, err)
		}
	}
	if v := r.info("host-a", id); v["status"] != "running" {
		t.Errorf("a call that hung was carried out: %v", v)
	}
	r.localCall(400, "PUT", "/host-a", obj{"endpoint": "gone"})
	r.localCall(400, "PUT", "/host-a", obj{"endpoint": "hang", "until": "1s"})
}

func TestARestartedServerHasForgottenReportsOfGuests(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	up, dead := r.running("host-a", nil), r.running("host-a", obj{"name": "dead"})
	if err := r.cl.Kill(dead); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus("host-a", dead, "exited")
	r.localCall(200, "POST", "/host-a/restart-vmm", nil)
	if v := r.info("host-a", up); v["status"] != "running" || v["boot_progress"] != "running" || len(v["events"].([]any)) != 0 {
		t.Errorf("a VM that ran on: %v", v)
	}
	r.await("host-a", dead, "it is up", func(v obj) bool { return v["boot_progress"] == "done" })
}

func TestFaultsHitOneHost(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	arm := func(f fault.Fault) {
		t.Helper()
		if err := f.Check(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.in.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	total := func(host string) any { return r.must(host, "Status", obj{})["total"] }
	arm(fault.Fault{Match: "CreateVm", Host: "host-b", Effect: fault.StatusAfter, Status: 400})
	r.create("host-a", nil)
	r.refused("injected fault", "host-b", "CreateVm", config("b"))
	if total("host-b") != 1.0 {
		t.Error("the error came before the effect")
	}
	arm(fault.Fault{Match: "CreateVm", CVM: "named", Effect: fault.ResetBefore})
	r.create("host-a", nil)
	if _, _, err := r.try(t.Context(), "host-a", "CreateVm", config("named")); err == nil || total("host-a") != 2.0 {
		t.Errorf("a reset before the effect: %v", err)
	}
	arm(fault.Fault{Match: "StartVm", Effect: fault.ResetAfter})
	id := r.create("host-a", nil)
	if _, _, err := r.try(t.Context(), "host-a", "StartVm", obj{"id": id}); err == nil {
		t.Error("a reset after the effect has an answer")
	}
	r.awaitStatus("host-a", id, "running")
	arm(fault.Fault{Match: "Status", Effect: fault.Status, Status: 429, Headers: map[string]string{"Retry-After": "1"}})
	if code, _, err := r.try(t.Context(), "host-a", "Status", obj{}); err != nil || code != 429 {
		t.Errorf("throttled: %d, %v", code, err)
	}
	calls := r.calls.Calls("named")
	if len(calls) != 1 || calls[0].Executed != 0 || calls[0].Host != "host-a" || calls[0].Path != "/prpc/CreateVm" {
		t.Errorf("log of calls: %+v", calls)
	}
	for _, c := range r.calls.Calls("") {
		if c.Path == "/prpc/Status" {
			t.Errorf("a read is in the log: %+v", c)
		}
	}
}
