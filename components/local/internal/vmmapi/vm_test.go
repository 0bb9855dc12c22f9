package vmmapi

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"cadre.dev/local/internal/cloud"
)

func TestNamesRepeatAndACreateIsNotIdempotent(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	first, second := r.create("host-a", nil), r.create("host-a", nil)
	list := r.must("host-a", "Status", obj{"keyword": "vm"})
	if first == second || list["total"] != 2.0 {
		t.Errorf("two creates made %s and %s: %v", first, second, list)
	}
	sum := sha256.Sum256([]byte(document("services: {}")))
	v := r.info("host-a", first)
	if v["status"] != "stopped" || v["app_id"] != hex.EncodeToString(sum[:20]) || v["instance_id"] != nil || v["uptime"] != "never" {
		t.Errorf("a new VM that is to be stopped: %v", v)
	}
	other := r.create("host-a", obj{"app_id": "0x" + "AB" + hex.EncodeToString(sum[1:20])})
	if got := r.info("host-a", other)["app_id"]; got != "ab"+hex.EncodeToString(sum[1:20]) {
		t.Errorf("the app id of a further member is %v", got)
	}
	if got := r.must("host-a", "Status", obj{"page": 2, "page_size": 2}); got["total"] != 3.0 || len(got["vms"].([]any)) != 1 {
		t.Errorf("the second page of two: %v", got)
	}
	if got := r.must("host-a", "Status", obj{"ids": []string{second}, "brief": true})["vms"].([]any); len(got) != 1 || got[0].(obj)["configuration"] != nil {
		t.Errorf("one VM in brief: %v", got)
	}
}

func TestAStartedVMRunsAtOnceAndReportsItsBoot(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.create("host-b", obj{"stopped": false})
	v := r.await("host-b", id, "it is up", func(v obj) bool { return v["boot_progress"] == "done" })
	if v["status"] != "running" || v["instance_id"] == nil || v["boot_error"] != "" || r.config("host-b", id)["stopped"] != false {
		t.Errorf("a VM that is up: %v", v)
	}
	r.must("host-b", "StartVm", obj{"id": id})
	if v := r.info("host-b", id); v["boot_progress"] != "running" || len(r.hv.Boots("vm")) != 1 {
		t.Errorf("a second start: %v, %d boots", v, len(r.hv.Boots("vm")))
	}
	if boot := r.hv.Boots("vm")[0]; boot.Machine != 1 || boot.VCPU != 1 || boot.MemoryMB != 2048 || string(boot.AppCompose) != document("services: {}") {
		t.Errorf("the boot of a VM on the second host: %+v", boot)
	}
}

func TestAnUpdateThatIsAnErrorHasWrittenTheFiles(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.running("host-a", obj{"encrypted_env": ""})
	next := document("services: {x: {}}")
	r.refused("vm should be stopped before resize: "+id, "host-a", "UpdateVm", obj{"id": id, "compose_file": next, "user_config": "u", "vcpu": 4})
	c := r.config("host-a", id)
	if c["compose_file"] != next || c["user_config"] != "u" || c["vcpu"] != 1.0 {
		t.Errorf("after the error: %v", c)
	}
	if boots := r.hv.Boots("vm"); len(boots) != 1 {
		t.Fatalf("an update made %d boots", len(boots))
	}
	r.must("host-a", "StopVm", obj{"id": id})
	r.awaitStatus("host-a", id, "stopped")
	answer := r.must("host-a", "UpdateVm", obj{"id": id, "compose_file": next, "vcpu": 4, "memory": 8192, "image": "dstack-0.5.9", "disk_size": 30})
	sum := sha256.Sum256([]byte(next))
	if answer["id"] != hex.EncodeToString(sum[:20]) {
		t.Errorf("UpdateVm answers %v, want the app's id", answer)
	}
	if got := r.must("host-a", "UpdateVm", obj{"id": id, "compose_file": "", "encrypted_env": "", "user_config": ""}); got["id"] != "" || r.config("host-a", id)["compose_file"] != next {
		t.Errorf("an update of nothing answers %v and leaves %v", got, r.config("host-a", id))
	}
	if v := r.info("host-a", id); v["status"] != "stopped" {
		t.Errorf("an update starts: %v", v)
	}
	r.must("host-a", "StartVm", obj{"id": id})
	r.await("host-a", id, "it is up", func(v obj) bool { return v["boot_progress"] == "done" })
	boot := r.hv.Boots("vm")[1]
	if string(boot.AppCompose) != next || boot.VCPU != 4 || boot.MemoryMB != 8192 || boot.OSImage != "dstack-0.5.9" {
		t.Errorf("the next boot: %+v", boot)
	}
}

func TestADiskOnlyGrows(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.create("host-a", nil)
	r.refused("Failed to resize disk", "host-a", "UpdateVm", obj{"id": id, "disk_size": 40})
	r.must("host-a", "StartVm", obj{"id": id})
	r.must("host-a", "StopVm", obj{"id": id})
	r.awaitStatus("host-a", id, "stopped")
	r.refused("Cannot shrink disk size", "host-a", "UpdateVm", obj{"id": id, "disk_size": 10, "vcpu": 2})
	r.must("host-a", "ResizeVm", obj{"id": id, "disk_size": 40})
	if c := r.config("host-a", id); c["disk_size"] != 40.0 || c["vcpu"] != 1.0 {
		t.Errorf("after a refused and an accepted change: %v", c)
	}
	set := r.cl.Settings()
	set.VMMVersion = "0.6.0"
	r.cl.SetSettings(set)
	r.must("host-a", "UpdateVm", obj{"id": r.create("host-a", nil), "disk_size": 40})
}

func TestAnImageThatIsAbsentIsWrittenAndRefused(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.create("host-a", nil)
	r.refused("Failed to load image", "host-a", "CreateVm", obj{"name": "other", "image": "dstack-9", "compose_file": document("")})
	r.refused("Failed to load image", "host-a", "UpdateVm", obj{"id": id, "image": "dstack-9"})
	if got := r.config("host-a", id)["image"]; got != "dstack-0.5.7" {
		t.Errorf("the host shows image %v, and not the one that it loaded", got)
	}
	r.refused("Failed to load image info", "host-a", "StartVm", obj{"id": id})
	r.must("host-a", "UpdateVm", obj{"id": id, "image": "dstack-0.5.9"})
	if got := r.config("host-a", id)["image"]; got != "dstack-0.5.9" {
		t.Errorf("the image is %v", got)
	}
	if list := r.must("host-a", "Status", obj{}); list["total"] != 1.0 {
		t.Errorf("a refused create left %v", list)
	}
}

func TestARemovalTakesTime(t *testing.T) {
	r := newRig(t, cloud.Settings{DeleteLag: cloud.Duration(time.Hour)})
	id := r.running("host-a", nil)
	r.must("host-a", "RemoveVm", obj{"id": id})
	r.must("host-a", "RemoveVm", obj{"id": id})
	if v := r.info("host-a", id); v["status"] != "removing" {
		t.Errorf("a VM that is being removed: %v", v)
	}
	r.refused("VM is being removed", "host-a", "StartVm", obj{"id": id})
	// A restart of the whole cloud resumes the removal.
	r.close()
	r.open(cloud.Settings{}, "")
	r.await("host-a", id, "it is gone", func(v obj) bool { return v == nil })
	if len(r.hv.Erased()) != 1 {
		t.Errorf("erased: %v", r.hv.Erased())
	}
	r.refused("VM not found", "host-a", "RemoveVm", obj{"id": id})
}

func TestAHostStartsDeadVMsWithTheFilesThatAreThere(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id, off := r.running("host-a", nil), r.running("host-a", obj{"name": "off"})
	next := document("services: {next: {}}")
	r.must("host-a", "UpdateVm", obj{"id": id, "compose_file": next})
	if err := r.cl.Kill(id); err != nil {
		t.Fatal(err)
	}
	v := r.awaitStatus("host-a", id, "exited")
	if v["exited_at"] == "never" || r.config("host-a", id)["stopped"] != false {
		t.Errorf("a VM that died: %v", v)
	}
	r.must("host-a", "StopVm", obj{"id": off})
	r.awaitStatus("host-a", off, "stopped")
	r.cl.SetSettings(cloud.Settings{AutoRestart: cloud.Duration(2 * time.Millisecond)})
	r.await("host-a", id, "it is up again", func(v obj) bool { return v["status"] == "running" && v["boot_progress"] == "done" })
	boots := r.hv.Boots("vm")
	if last := boots[len(boots)-1]; len(boots) != 2 || string(last.AppCompose) != next {
		t.Errorf("%d boots, the last one of %s", len(boots), last.AppCompose)
	}
	if v := r.info("host-a", off); v["status"] != "stopped" {
		t.Errorf("a VM that is off was started: %v", v)
	}
}

func TestABootThatFailsIsAnExitWithAnErrorUntilTheNextStart(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.create("host-a", obj{"compose_file": document("refuse me"), "stopped": false})
	v := r.await("host-a", id, "it has exited", func(v obj) bool { return v["status"] == "exited" })
	if v["boot_error"] == "" {
		t.Errorf("a failed boot: %v", v)
	}
	r.must("host-a", "UpdateVm", obj{"id": id, "compose_file": document("services: {}")})
	r.must("host-a", "StartVm", obj{"id": id})
	if v := r.await("host-a", id, "it is up", func(v obj) bool { return v["boot_progress"] == "done" }); v["boot_error"] != "" {
		t.Errorf("after the next start: %v", v)
	}
}

func TestANewerHostGivesUpAfterFiveAttempts(t *testing.T) {
	r := newRig(t, cloud.Settings{AutoRestart: cloud.Duration(time.Millisecond), VMMVersion: "0.6.0"})
	id := r.create("host-a", obj{"compose_file": document("refuse me"), "stopped": false})
	exhausted := func(v obj) bool {
		events, _ := v["events"].([]any)
		return len(events) > 0 && events[len(events)-1].(obj)["event"] == "vmm.auto_restart.exhausted"
	}
	if v := r.await("host-a", id, "the host has given up", exhausted); v["status"] != "exited" {
		t.Errorf("a VM that the host has given up: %v", v)
	}
	if n := len(r.hv.Boots("vm")); n != 6 {
		t.Errorf("%d boots, want the first one and five attempts", n)
	}
	// A start by hand gives it five attempts again.
	r.must("host-a", "StartVm", obj{"id": id})
	r.await("host-a", id, "it is tried again", func(v obj) bool { return !exhausted(v) })
	r.await("host-a", id, "the host has given up again", exhausted)
	if n := len(r.hv.Boots("vm")); n != 12 {
		t.Errorf("%d boots", n)
	}
}

func TestAShutdownIsAskedOfTheGuest(t *testing.T) {
	r := newRig(t, cloud.Settings{AcceptLag: cloud.Duration(time.Hour)})
	id := r.running("host-a", nil)
	r.must("host-a", "ShutdownVm", obj{"id": id})
	if v := r.info("host-a", id); v["status"] != "running" || v["shutdown_progress"] != "" {
		t.Errorf("before the guest reports: %v", v)
	}
	r.cl.SetSettings(cloud.Settings{})
	r.must("host-a", "ShutdownVm", obj{"id": id})
	if v := r.awaitStatus("host-a", id, "stopped"); v["shutdown_progress"] != "powering off" {
		t.Errorf("after a shutdown: %v", v)
	}
	r.refused("client error (Connect)", "host-a", "ShutdownVm", obj{"id": id})
	r.refused("vm not found", "host-a", "ShutdownVm", obj{"id": "x"})
}

func TestAStopOfAVMWithoutAProcessIsAnErrorThatTookEffect(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	id := r.create("host-a", nil)
	r.refused("Process not found", "host-a", "StopVm", obj{"id": id})
	r.must("host-a", "StartVm", obj{"id": id})
	if err := r.cl.KillHost("host-a"); err != nil {
		t.Fatal(err)
	}
	r.refused("Process not found", "host-b", "StopVm", obj{"id": r.create("host-b", nil)})
	if err := r.cl.StopVM("host-a", id); err != nil {
		t.Errorf("a stop of a process that ended: %v", err)
	}
	if err := r.cl.ReturnHost("host-a"); err != nil {
		t.Fatal(err)
	}
	r.srv.doors["host-a"].set(Up, 0)
	r.refused("Process not found", "host-a", "StopVm", obj{"id": id})
	if v := r.info("host-a", id); v["status"] != "stopped" {
		t.Errorf("after the stops: %v", v)
	}
}

func TestAStopEndsABootUnderWay(t *testing.T) {
	r := newRig(t, cloud.Settings{BootDelay: cloud.Duration(time.Hour)})
	id := r.create("host-a", obj{"stopped": false})
	if v := r.info("host-a", id); v["status"] != "running" || v["boot_progress"] != "booting" {
		t.Errorf("a VM that boots: %v", v)
	}
	r.refused("vm should be stopped", "host-a", "UpdateVm", obj{"id": id, "memory": 4096})
	r.must("host-a", "StopVm", obj{"id": id})
	if v := r.awaitStatus("host-a", id, "stopped"); v["boot_error"] != "" {
		t.Errorf("a stop during the boot is an error: %v", v)
	}
}

func TestARestartedCloudBootsTheVMsThatWereOn(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	on, off := r.running("host-b", nil), r.create("host-a", obj{"name": "off"})
	r.close()
	r.open(cloud.Settings{}, "")
	r.await("host-b", on, "it is up", func(v obj) bool { return v["status"] == "running" && v["boot_progress"] == "done" })
	if v := r.info("host-a", off); v["status"] != "stopped" {
		t.Errorf("a VM that was off: %v", v)
	}
	for _, hosts := range [][]string{nil, {"host-a"}} {
		if _, err := cloud.Open(cloud.Config{Dir: r.dir, Hypervisor: r.hv, EnvKey: cloudtestKey, Hosts: hosts}); err == nil {
			t.Errorf("a start with hosts %q forgets VMs", hosts)
		}
	}
}
