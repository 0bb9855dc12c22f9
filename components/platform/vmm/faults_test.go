package vmm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cadre.dev/platform"
	"cadre.dev/platform/platformtest"
)

// state is all that a host keeps about its CVMs.
func (f *fakeVMM) state(t *testing.T) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := []map[string]any{}
	for _, vm := range f.vms {
		f.settle(vm)
		rows = append(rows, vm.view(false))
	}
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// statusOf is the status of the CVM called name; "": none.
func (f *fakeVMM) statusOf(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, vm := range f.vms {
		if vm.Name == name {
			return vm.status()
		}
	}
	return ""
}

// Each request of each call fails in each way. A refusal had no effect, a success reached its aim, and
// after any end the same call again reaches it, with one CVM.
func TestEachFaultAtEachRequest(t *testing.T) {
	_, hash := template(1), ""
	for name, op := range map[string]struct {
		begin string // the status of the CVM before; "": none is there
		call  func(r *rig, vm platform.Instance) error
		done  func(i platform.Instance) bool
	}{
		"create": {"", func(r *rig, _ platform.Instance) error {
			if s := r.host.statusOf("a-0"); s != "" && s != "stopped" {
				return nil // as a caller that lists by name before
			}
			_, err := r.Create(r.Context(), r.request("a-0"))
			return err
		}, platform.Instance.Running},
		"update": {"stopped", func(r *rig, vm platform.Instance) error {
			_, p := r.provision(1)
			hash = p.ComposeHash
			_, err := r.Update(r.Context(), platform.UpdateRequest{VMUUID: vm.VMUUID, ComposeHash: hash,
				Shape: platform.Shape{InstanceType: "tdx.medium", OSImage: "dstack-0.5.11", DiskGB: 40}})
			return err
		}, func(i platform.Instance) bool {
			return i.Status == "stopped" && i.ComposeHash == hash && i.InstanceType == "tdx.medium" && i.OSImage == "dstack-0.5.11" && i.DiskGB == 40
		}},
		"stop": {"running", func(r *rig, vm platform.Instance) error { _, err := r.Stop(r.Context(), vm.VMUUID); return err },
			func(i platform.Instance) bool { return i.Status == "stopped" || i.Status == "stopping" }},
		"force stop": {"running", func(r *rig, vm platform.Instance) error { _, err := r.ForceStop(r.Context(), vm.VMUUID); return err },
			func(i platform.Instance) bool { return i.Status == "stopped" || i.Status == "stopping" }},
		"start":   {"stopped", func(r *rig, vm platform.Instance) error { _, err := r.Start(r.Context(), vm.VMUUID); return err }, platform.Instance.Running},
		"restart": {"running", func(r *rig, vm platform.Instance) error { _, err := r.Restart(r.Context(), vm.VMUUID); return err }, platform.Instance.Running},
		"delete": {"running", func(r *rig, vm platform.Instance) error { return r.Delete(r.Context(), vm.VMUUID) },
			func(i platform.Instance) bool { return i.VMUUID == "" || i.Status == "deleting" }},
	} {
		begin := func(t *testing.T) (*rig, platform.Instance) {
			r := newRig(t)
			if op.begin == "" {
				return r, platform.Instance{}
			}
			vm := r.create("a-0")
			if op.begin == "stopped" {
				r.stop(vm)
			}
			return r, vm
		}
		r, vm := begin(t)
		before := len(r.host.calls)
		if err := op.call(r, vm); err != nil || !op.done(r.byName("a-0")) {
			t.Fatalf("%s: %v, %+v", name, err, r.byName("a-0"))
		}
		methods := slices.Compact(slices.Sorted(slices.Values(r.host.calls[before:])))
		for _, method := range methods {
			for _, mode := range modes {
				t.Run(fmt.Sprintf("%s/%s/%s", name, method, mode), func(t *testing.T) {
					r, vm := begin(t)
					was := r.host.state(t)
					r.host.inject(platformtest.Fault{Path: "/prpc/" + method + "$", Mode: mode, Times: 3}) // every attempt of a read
					err := op.call(r, vm)
					r.host.mu.Lock()
					r.host.faults = nil
					r.host.mu.Unlock()
					now := r.byName("a-0")
					switch is := r.host.state(t); {
					case errors.Is(err, platform.ErrRefused) && is != was:
						t.Errorf("refused with %v, and the host changed:\nwas %s\nis  %s", err, was, is)
					case err == nil && !op.done(now):
						t.Errorf("it succeeded, and the cvm is %+v", now)
					}
					for n := 0; n < 5 && err != nil; n++ {
						if errors.Is(err, platform.ErrNotFound) && name != "delete" {
							t.Fatalf("the cvm was lost: %v", err)
						}
						if now := r.byName("a-0"); now.Status == "stopping" {
							r.await("a-0", "stopped")
						}
						err = op.call(r, vm)
					}
					if now := r.byName("a-0"); err != nil || !op.done(now) {
						t.Errorf("the same call again: %v, %+v", err, now)
					}
					if list, err := r.List(t.Context(), ""); err != nil || len(list) > 1 {
						t.Errorf("%d cvms, %v, want one at most", len(list), err)
					}
				})
			}
		}
	}
}
