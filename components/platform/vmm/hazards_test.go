package vmm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/platformtest"
	"cadre.dev/platform/vmm"
)

// rig is a platform of one host with one CVM that runs.
type rig struct {
	*testing.T
	*vmm.Client
	host *fakeVMM
}

func newRig(t *testing.T) *rig {
	t.Helper()
	host := newFake(t)
	return &rig{T: t, Client: clientOf(t, nil, host.serve(t)), host: host}
}

func (r *rig) provision(revision int) (platform.Template, platform.Provisioned) {
	r.Helper()
	tmpl := template(revision)
	p, err := r.Provision(r.Context(), "", tmpl)
	if err != nil {
		r.Fatal(err)
	}
	return tmpl, p
}

func (r *rig) request(name string) platform.CreateRequest {
	r.Helper()
	tmpl, p := r.provision(0)
	return platform.CreateRequest{Name: name, Provisioned: p, Template: tmpl}
}

func (r *rig) create(name string) platform.Instance {
	r.Helper()
	if _, err := r.Create(r.Context(), r.request(name)); err != nil {
		r.Fatal(err)
	}
	return r.byName(name)
}

func (r *rig) byName(name string) platform.Instance {
	r.Helper()
	list, err := r.List(r.Context(), "")
	if err != nil {
		r.Fatal(err)
	}
	for _, i := range list {
		if i.Name == name {
			return i
		}
	}
	return platform.Instance{}
}

func (r *rig) await(name, status string) platform.Instance {
	r.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if i := r.byName(name); i.Status == status || time.Now().After(deadline) {
			if i.Status != status {
				r.Fatalf("%s is %+v, want the status %q", name, i, status)
			}
			return i
		}
	}
}

func (r *rig) stop(i platform.Instance) {
	r.Helper()
	if _, err := r.Stop(r.Context(), i.VMUUID); err != nil {
		r.Fatal(err)
	}
	r.await(i.Name, "stopped")
}

// update moves the CVM to a revision and a larger size.
func (r *rig) update(i platform.Instance, revision int) error {
	r.Helper()
	_, p := r.provision(revision)
	_, err := r.Update(r.Context(), platform.UpdateRequest{VMUUID: i.VMUUID, ComposeHash: p.ComposeHash, Shape: platform.Shape{InstanceType: "tdx.medium"}})
	return err
}

// A guest that ends without a notice leaves a CVM that its host starts again, with the files that are
// there: it does not count as down, and is not changed. Stop takes it from the host.
func TestTheHostStartsACVMAgain(t *testing.T) {
	r := newRig(t)
	made := r.create("a-0")
	r.host.silent = true
	if _, err := r.Stop(t.Context(), made.VMUUID); err != nil {
		t.Fatal(err)
	}
	exited := r.await("a-0", "exited")
	if exited.StaysDown() || exited.Running() || !exited.InProgress {
		t.Errorf("a cvm that its host starts again reads %+v, want in progress", exited)
	}
	if err := r.update(made, 1); !errors.Is(err, platform.ErrBusy) || !errors.Is(err, platform.ErrRefused) {
		t.Errorf("update of an exited cvm: %v, want ErrBusy and ErrRefused", err)
	}
	if n := r.host.sent("UpdateVm"); n != 0 {
		t.Errorf("%d changes were sent to a cvm that its host may start", n)
	}
	r.host.autoRestart()
	if i := r.byName("a-0"); !i.Running() || i.ComposeHash != made.ComposeHash {
		t.Errorf("the host started %+v, want the files of before", i)
	}
	if _, err := r.Stop(t.Context(), made.VMUUID); err != nil {
		t.Fatal(err)
	}
	r.await("a-0", "exited")
	if _, err := r.Stop(t.Context(), made.VMUUID); err != nil {
		t.Fatal(err)
	}
	if i := r.await("a-0", "stopped"); !i.StaysDown() {
		t.Errorf("a stopped cvm reads %+v, want down", i)
	}
	if err := r.update(made, 1); err != nil {
		t.Fatal(err)
	}
	r.host.autoRestart()
	if i := r.byName("a-0"); i.Status != "stopped" {
		t.Errorf("the host started a stopped cvm: %+v", i)
	}
}

// A host says when it starts a CVM no more. A host that starts no CVM again says nothing.
func TestACVMThatTheHostGaveUp(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*fakeVM)
		down  bool
		error string
	}{
		"just exited": {func(vm *fakeVM) { vm.exitedAt = "9m 59s" }, false, ""},
		"never":       {func(vm *fakeVM) { vm.exitedAt = "never" }, false, ""},
		"ten minutes": {func(vm *fakeVM) { vm.exitedAt = "10m" }, true, ""},
		"two days":    {func(vm *fakeVM) { vm.exitedAt = "2days 3m" }, true, ""},
		"exhausted": {func(vm *fakeVM) {
			vm.events = []map[string]any{{"event": "boot.progress", "body": "done"}, {"event": "vmm.auto_restart.exhausted", "body": "stopped after 5\nattempts"}}
		}, true, "stopped after 5 attempts"},
		"exhausted, and started again since": {func(vm *fakeVM) {
			vm.events = []map[string]any{{"event": "vmm.auto_restart.exhausted", "body": "x"}, {"event": "boot.progress", "body": "booting"}}
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create("a-0")
			r.host.edit(t, "a-0", func(vm *fakeVM) { vm.running = false; c.edit(vm) })
			if i := r.byName("a-0"); i.Status != "exited" || i.StaysDown() != c.down || i.Running() || i.BootError != c.error {
				t.Errorf("reads %+v, want down: %v, boot error %q", i, c.down, c.error)
			}
		})
	}
}

// A host shows "running" while the guest still boots, and cannot be asked to shut down.
func TestAGuestThatBoots(t *testing.T) {
	for name, c := range map[string]struct {
		progress, uptime, error string
		booting                 bool
	}{
		"a step":              {"requesting app keys", "4m 59s", "", true},
		"the first moment":    {"booting", "never", "", true},
		"five minutes":        {"setting up docker", "5m", "", false},
		"an hour":             {"setting up docker", "1h 2m", "", false},
		"an error":            {"setting up docker", "10s", "failed", false},
		"done":                {"done", "10s", "", false},
		"no progress reports": {"N/A", "10s", "", false},
		"a restarted host":    {"", "10s", "", false},
	} {
		r := newRig(t)
		r.create("a-0")
		r.host.edit(t, "a-0", func(vm *fakeVM) { vm.progress, vm.uptime, vm.bootError = c.progress, c.uptime, c.error })
		if i := r.byName("a-0"); i.Running() == c.booting || i.Status != "running" || i.BootError != c.error || i.StaysDown() {
			t.Errorf("%s: reads %+v, want it booting: %v", name, i, c.booting)
		}
	}
}

// A host writes the document before it looks at the rest, so its error is a refusal only if nothing
// reads back as changed.
func TestAnUpdateThatFailsHalfWay(t *testing.T) {
	r := newRig(t)
	made := r.create("a-0")
	r.stop(made)
	r.host.failResize = true
	err := r.update(made, 1)
	if err == nil || errors.Is(err, platform.ErrRefused) || !strings.Contains(err.Error(), "compose file was written") {
		t.Errorf("an update of which a part was written: %v, want an unknown outcome that names the part", err)
	}
	if i := r.byName("a-0"); i.ComposeHash == made.ComposeHash || i.InstanceType != made.InstanceType || i.Status != "stopped" {
		t.Errorf("the fault left %+v, want the new document and the old size", i)
	}
	if _, err := r.Resize(t.Context(), made.VMUUID, platform.Shape{DiskGB: 40}); !errors.Is(err, platform.ErrRefused) {
		t.Errorf("a resize that changed nothing: %v, want ErrRefused", err)
	}
	r.host.failResize = false
	if err := r.update(made, 1); err != nil {
		t.Errorf("the same update again: %v", err)
	}
	if i := r.byName("a-0"); i.InstanceType != "tdx.medium" {
		t.Errorf("the second update left %+v", i)
	}
}

// An Update names a document that Provision of this process saw.
func TestAnUpdateOfAnUnknownDocument(t *testing.T) {
	r := newRig(t)
	made := r.create("a-0")
	r.stop(made)
	_, err := r.Update(t.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: strings.Repeat("ab", 32)})
	if !errors.Is(err, platform.ErrRefused) || !strings.Contains(err.Error(), "provision it again") {
		t.Errorf("update to an unknown hash: %v", err)
	}
	got, err := r.Update(t.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: made.ComposeHash})
	if err != nil || !got.NoChange {
		t.Errorf("update to the present content = %+v, %v, want no change", got, err)
	}
}

// A start notes that the CVM is to run before it fails, and its host tries again.
func TestAStartThatFails(t *testing.T) {
	r := newRig(t)
	made := r.create("a-0")
	r.stop(made)
	r.host.failStart = true
	if _, err := r.Start(t.Context(), made.VMUUID); err == nil || errors.Is(err, platform.ErrRefused) {
		t.Errorf("a start that its host repeats: %v, want an unknown outcome", err)
	}
	if i := r.byName("a-0"); i.Status != "exited" || i.StaysDown() {
		t.Errorf("the cvm reads %+v, want one that its host starts", i)
	}
}

// A start during the end of a process would be taken for done.
func TestAStartOfACVMThatStops(t *testing.T) {
	r := newRig(t)
	r.host.stopping = time.Hour
	made := r.create("a-0")
	if _, err := r.Stop(t.Context(), made.VMUUID); err != nil {
		t.Fatal(err)
	}
	if i := r.byName("a-0"); i.Status != "stopping" || !i.InProgress {
		t.Errorf("the cvm reads %+v, want one that stops", i)
	}
	before := r.host.sent("StartVm")
	if _, err := r.Start(t.Context(), made.VMUUID); !errors.Is(err, platform.ErrBusy) || r.host.sent("StartVm") != before {
		t.Errorf("start of a cvm that stops: %v with %d calls, want ErrBusy and none", err, r.host.sent("StartVm")-before)
	}
}

// Restart takes a silent guest from its host, and stops a hung one hard after its time.
func TestRestartOfAGuestThatDoesNotFollow(t *testing.T) {
	host := newFake(t)
	r := &rig{T: t, host: host, Client: clientOf(t, func(c *vmm.Config) { c.ShutdownTimeout = 5 * time.Millisecond }, host.serve(t))}
	made := r.create("a-0")
	host.silent = true
	if _, err := r.Restart(t.Context(), made.VMUUID); err != nil || !r.byName("a-0").Running() {
		t.Errorf("restart of a silent guest: %v, %+v", err, r.byName("a-0"))
	}
	host.hung = true
	before := host.sent("StopVm")
	if _, err := r.Restart(t.Context(), made.VMUUID); err != nil || !r.byName("a-0").Running() || host.sent("StopVm") == before {
		t.Errorf("restart of a hung guest: %v, %+v, %d hard stops", err, r.byName("a-0"), host.sent("StopVm")-before)
	}
}

// A lost answer to a create leaves one CVM, which the same call finds and starts.
func TestACreateWithoutAnAnswer(t *testing.T) {
	r := newRig(t)
	req := r.request("a-0")
	r.host.inject(platformtest.Fault{Path: "/prpc/CreateVm", Mode: platformtest.ResetBefore})
	if _, err := r.Create(t.Context(), req); err == nil || errors.Is(err, platform.ErrRefused) {
		t.Errorf("create without an answer and an effect: %v, want an unknown outcome", err)
	}
	for n, mode := range []platformtest.Mode{platformtest.ResetAfter, platformtest.ErrorAfter} {
		r.host.inject(platformtest.Fault{Path: "/prpc/CreateVm", Mode: mode})
		req.Name = []string{"a-0", "a-1"}[n]
		made, err := r.Create(t.Context(), req)
		if err != nil || made.VMUUID == "" || !r.byName(req.Name).Running() {
			t.Errorf("create under fault %s = %+v, %v, want the one cvm, started", mode, made, err)
		}
		req.AppID = req.Provisioned.AppID
	}
	if list, err := r.List(t.Context(), ""); err != nil || len(list) != 2 {
		t.Errorf("%d cvms, %v, want 2", len(list), err)
	}
}

// A crash between the create and the start leaves a stopped CVM, which the same create continues.
func TestACreateThatWasInterrupted(t *testing.T) {
	r := newRig(t)
	req := r.request("a-0")
	r.host.inject(platformtest.Fault{Path: "/prpc/StartVm", Mode: platformtest.ResetBefore})
	if _, err := r.Create(t.Context(), req); err == nil || errors.Is(err, platform.ErrRefused) {
		t.Errorf("create without a start: %v, want an unknown outcome", err)
	}
	left := r.byName("a-0")
	if left.Status != "stopped" || !left.StaysDown() {
		t.Fatalf("the interrupted create left %+v, want a stopped cvm", left)
	}
	other, p := r.provision(1)
	_, err := r.Create(t.Context(), platform.CreateRequest{Name: "a-0", AppID: left.AppID, Provisioned: p, Template: other})
	if err == nil || r.byName("a-0").Status != "stopped" {
		t.Errorf("a create of other content: %v, and the cvm is %+v, want it as it was", err, r.byName("a-0"))
	}
	other, p = r.provision(0)
	other.InstanceType = "tdx.medium"
	_, err = r.Create(t.Context(), platform.CreateRequest{Name: "a-0", Provisioned: p, Template: other})
	if err == nil || r.byName("a-0").Status != "stopped" {
		t.Errorf("a create of another size: %v, and the cvm is %+v, want it as it was", err, r.byName("a-0"))
	}
	made, err := r.Create(t.Context(), req)
	if err != nil || made.VMUUID != left.VMUUID || !r.byName("a-0").Running() || r.host.sent("CreateVm") != 1 {
		t.Errorf("the same create again = %+v, %v after %d calls, want the same cvm, started", made, err, r.host.sent("CreateVm"))
	}
}

// Hosts let two CVMs have one name: the driver makes no second one, and continues neither of two.
func TestNamesThatAreTaken(t *testing.T) {
	r := newRig(t)
	req := r.request("a-0")
	r.create("a-0")
	r.create2("b-0")
	for name, edit := range map[string]func(*platform.CreateRequest){
		"a running cvm":       func(q *platform.CreateRequest) {},
		"in other case":       func(q *platform.CreateRequest) { q.Name = "A-0" },
		"the app id of a cvm": func(q *platform.CreateRequest) { q.Name = "c-0" },
		"no name":             func(q *platform.CreateRequest) { q.Name = "" },
		"a path":              func(q *platform.CreateRequest) { q.Name = "../a-0" },
		"an unknown node":     func(q *platform.CreateRequest) { q.Name, q.AppID, q.Node = "c-0", q.Provisioned.AppID, "z" },
	} {
		before, q := r.host.sent("CreateVm"), req
		edit(&q)
		if _, err := r.Create(t.Context(), q); !errors.Is(err, platform.ErrRefused) || r.host.sent("CreateVm") != before {
			t.Errorf("%s: %v after %d calls, want ErrRefused and no call", name, err, r.host.sent("CreateVm")-before)
		}
	}
	for _, name := range []string{"a-0", "b-0"} {
		r.host.edit(t, name, func(vm *fakeVM) { vm.Name, vm.instanceID, vm.started, vm.running = "d-0", "", false, false })
	}
	q := req
	q.Name, q.AppID = "d-0", q.Provisioned.AppID
	if _, err := r.Create(t.Context(), q); !errors.Is(err, platform.ErrRefused) || r.byName("d-0").Status != "stopped" {
		t.Errorf("two cvms of one name: %v, want ErrRefused and none started", err)
	}
}

// create2 makes a further CVM of the app of revision 0.
func (r *rig) create2(name string) platform.Instance {
	r.Helper()
	req := r.request(name)
	req.AppID = req.Provisioned.AppID
	if _, err := r.Create(r.Context(), req); err != nil {
		r.Fatal(err)
	}
	return r.byName(name)
}

// A name that is being removed is free later.
func TestANameThatIsBeingRemoved(t *testing.T) {
	r := newRig(t)
	r.host.removing = time.Hour
	made := r.create("a-0")
	if err := r.Delete(t.Context(), made.VMUUID); err != nil {
		t.Fatal(err)
	}
	if i := r.byName("a-0"); i.Status != "deleting" || !i.InProgress {
		t.Errorf("the cvm reads %+v, want one that is deleted", i)
	}
	if _, err := r.Create(t.Context(), r.request("a-0")); !errors.Is(err, platform.ErrBusy) {
		t.Errorf("create under the name: %v, want ErrBusy", err)
	}
	if err := r.Delete(t.Context(), made.VMUUID); err != nil {
		t.Errorf("delete again: %v", err)
	}
	if _, err := r.Start(t.Context(), made.VMUUID); !errors.Is(err, platform.ErrBusy) {
		t.Errorf("start of it: %v, want ErrBusy", err)
	}
}

// Two processes that make one name at the same time leave one CVM at most.
func TestTwoCreatesAtTheSameTime(t *testing.T) {
	for name, other := range map[string]func(*fakeVM){
		"the other runs":        func(vm *fakeVM) { vm.started = true; vm.boot() },
		"the other never ran":   func(*fakeVM) {},
		"it has a capital name": func(vm *fakeVM) { vm.Name = "A-0" },
	} {
		t.Run(name, func(t *testing.T) {
			one, two := newPlace(t), newPlace(t)
			r := &rig{T: t, host: one.fakeVMM, Client: clientOf(t, nil, one.server.URL, two.server.URL)}
			req := r.request("a-0")
			req.Node = "a"
			one.lie = func(written *config) { // while this process makes its own
				vm := &fakeVM{config: *written, id: "00000000-0000-4000-8000-000000000001"}
				other(vm)
				two.mu.Lock()
				defer two.mu.Unlock()
				two.vms = append(two.vms, vm)
			}
			_, err := r.Create(t.Context(), req)
			if !errors.Is(err, platform.ErrBusy) || one.sent("StartVm") != 0 || one.sent("RemoveVm") != 1 || two.sent("StartVm")+two.sent("RemoveVm") != 0 {
				t.Errorf("create: %v after %d starts and %d removals, want ErrBusy, none and the own one", err, one.sent("StartVm"), one.sent("RemoveVm"))
			}
		})
	}
	one, two := newPlace(t), newPlace(t)
	rivals := []*vmm.Client{clientOf(t, nil, one.server.URL, two.server.URL), clientOf(t, nil, one.server.URL, two.server.URL)}
	for round := range 20 {
		name := "race-" + string(rune('a'+round))
		errs := make(chan error)
		for n, c := range rivals {
			go func() {
				tmpl := template(round)
				p, err := c.Provision(t.Context(), "", tmpl)
				if err == nil {
					_, err = c.Create(t.Context(), platform.CreateRequest{Name: name, Provisioned: p, Template: tmpl, Node: string(rune('a' + n))})
				}
				errs <- err
			}()
		}
		won := 0
		for range rivals {
			switch err := <-errs; {
			case err == nil:
				won++
			case !errors.Is(err, platform.ErrBusy) && !errors.Is(err, platform.ErrRefused):
				t.Errorf("round %d: %v, want that the other was first", round, err)
			}
		}
		if started := one.started(name) + two.started(name); started > 1 || started != won {
			t.Errorf("round %d: %d cvms called %s were started, %d creates succeeded, want one at most", round, started, name, won)
		}
	}
}

// started counts the CVMs called name that ever booted.
func (f *fakeVMM) started(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, vm := range f.vms {
		if vm.Name == name && vm.instanceID != "" {
			n++
		}
	}
	return n
}

// A host that shows another CVM than the ordered one gets no start.
func TestAMadeCVMIsConfirmed(t *testing.T) {
	r := newRig(t)
	req := r.request("a-0")
	r.host.lie = func(c *config) { c.ComposeFile += " " }
	_, err := r.Create(t.Context(), req)
	if err == nil || errors.Is(err, platform.ErrRefused) || !strings.Contains(err.Error(), "compose hash") || r.host.sent("StartVm") != 0 {
		t.Errorf("create on a host that writes another document: %v, %d starts, want an error and none", err, r.host.sent("StartVm"))
	}
}

// Without a key service the document decides the app's id.
func TestADocumentWithoutAKeyService(t *testing.T) {
	r := newRig(t)
	made := r.create("a-0")
	r.stop(made)
	tmpl := template(1)
	tmpl.AppCompose = []byte(strings.NewReplacer(`"key_provider":"kms"`, `"key_provider":"none"`).Replace(string(tmpl.AppCompose)))
	p, err := r.Provision(t.Context(), made.VMUUID, tmpl)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Update(t.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: p.ComposeHash}); !errors.Is(err, platform.ErrRefused) {
		t.Errorf("an update to it: %v, want ErrRefused", err)
	}
	if _, err := r.Create(t.Context(), platform.CreateRequest{Name: "b-0", AppID: made.AppID, Provisioned: p, Template: tmpl}); !errors.Is(err, platform.ErrRefused) {
		t.Errorf("a cvm of another app with it: %v, want ErrRefused", err)
	}
	p.AppID = p.ComposeHash[:40]
	if _, err := r.Create(t.Context(), platform.CreateRequest{Name: "b-0", Provisioned: p, Template: tmpl}); err != nil {
		t.Errorf("a cvm of its own app: %v", err)
	}
}
