package vmm_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/platform/platformtest"
)

// fakeVMM is one host in memory. It has the hazards of a real host: names that
// are not unique, changes that fail after a part is written, CVMs that it starts again while they are
// to run, and removals in the background.
type fakeVMM struct {
	version string
	token   string // that requests need; "": none
	images  []string
	gpus    []map[string]any
	modes   []string
	// stopping is how long a process takes to end, removing how long a removal takes.
	stopping, removing time.Duration
	// silent guests end without a notice to the host; hung guests do not end.
	silent, hung bool
	// failResize fails a change after document and env are written; failStart fails a start after
	// the host noted that the CVM is to run.
	failResize, failStart bool
	kms                   *attestsim.Cloud
	// lie changes the files that a create writes.
	lie func(*config)

	private *ecdh.PrivateKey

	mu     sync.Mutex // guards the fields below
	vms    []*fakeVM
	faults []platformtest.Fault
	calls  []string
	bodies []string // of CreateVm and UpdateVm
	next   int
	gone   bool // no request gets an answer
}

type fakeVM struct {
	config
	id, instanceID      string
	started, running    bool
	endsAt              time.Time // of the process
	goneAt              time.Time // of the removal
	events              []map[string]any
	exitedAt, bootError string
	progress, uptime    string
}

type config struct {
	Name         string           `json:"name"`
	Image        string           `json:"image"`
	ComposeFile  string           `json:"compose_file"`
	VCPU         int              `json:"vcpu"`
	Memory       int              `json:"memory"`
	DiskSize     int              `json:"disk_size"`
	EncryptedEnv string           `json:"encrypted_env"`
	AppID        *string          `json:"app_id"`
	GPUs         *gpus            `json:"gpus"`
	Stopped      bool             `json:"stopped"`
	Networking   map[string]any   `json:"networking"`
	Networks     []map[string]any `json:"networks"`
}

type gpus struct {
	AttachMode string              `json:"attach_mode"`
	GPUs       []map[string]string `json:"gpus"`
}

func newFake(t *testing.T) *fakeVMM {
	t.Helper()
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeVMM{version: "0.5.11", images: []string{"dstack-0.5.9", "dstack-0.5.11"}, private: private,
		stopping: 20 * time.Millisecond, removing: 20 * time.Millisecond}
}

// serve is the URL of the host until the test ends.
func (f *fakeVMM) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}

func (f *fakeVMM) inject(fault platformtest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault.Times = max(fault.Times, 1)
	f.faults = append(f.faults, fault)
}

func (f *fakeVMM) takeFault(method, path string) platformtest.Mode {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.faults {
		if f.faults[i].Times > 0 && f.faults[i].Matches(method, path) {
			f.faults[i].Times--
			return f.faults[i].Mode
		}
	}
	return ""
}

// sent are the requests of a method so far.
func (f *fakeVMM) sent(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if c == method {
			n++
		}
	}
	return n
}

// edit changes the CVM called name behind the driver's back.
func (f *fakeVMM) edit(t *testing.T, name string, change func(*fakeVM)) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, vm := range f.vms {
		if vm.Name == name {
			change(vm)
			return
		}
	}
	t.Fatalf("no cvm is called %s", name)
}

// autoRestart is the act of a host every 20 s.
func (f *fakeVMM) autoRestart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, vm := range f.vms {
		f.settle(vm)
		if vm.started && !vm.running && vm.goneAt.IsZero() {
			vm.boot()
		}
	}
}

func (f *fakeVMM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, ok := strings.CutPrefix(r.URL.Path, "/prpc/")
	if !ok || r.Method != http.MethodPost || !r.URL.Query().Has("json") {
		http.NotFound(w, r)
		return
	}
	f.mu.Lock()
	f.calls = append(f.calls, method)
	gone := f.gone
	f.mu.Unlock()
	if gone {
		hangUp(w)
		return
	}
	f.fail(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.handle(w, r, method) }))
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// fail serves a request by the host, with the fault that is armed for it.
func (f *fakeVMM) fail(w http.ResponseWriter, r *http.Request, host http.Handler) {
	hidden := httptest.NewRecorder()
	switch f.takeFault(r.Method, r.URL.Path) {
	case platformtest.Refuse:
		answer(w, 400, map[string]any{"error": "injected"})
	case platformtest.Throttle:
		answer(w, 429, map[string]any{"error": "injected"})
	case platformtest.ErrorBefore:
		answer(w, 500, map[string]any{"error": "injected"})
	case platformtest.ErrorAfter:
		host.ServeHTTP(hidden, r)
		answer(w, 500, map[string]any{"error": "injected"})
	case platformtest.ResetBefore:
		hangUp(w)
	case platformtest.ResetAfter:
		host.ServeHTTP(hidden, r)
		hangUp(w)
	default:
		host.ServeHTTP(w, r)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

type request struct {
	config
	ID       string   `json:"id"`
	IDs      []string `json:"ids"`
	Brief    bool     `json:"brief"`
	VCPU     *int     `json:"vcpu"`
	Memory   *int     `json:"memory"`
	DiskSize *int     `json:"disk_size"`
	Image    *string  `json:"image"`
}

func (f *fakeVMM) handle(w http.ResponseWriter, r *http.Request, method string) {
	if f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token {
		answer(w, 401, map[string]any{"error": "unauthorized: " + r.Header.Get("Authorization")})
		return
	}
	var req request
	raw := json.NewDecoder(r.Body)
	if err := raw.Decode(&req); err != nil {
		answer(w, 400, map[string]any{"error": err.Error()})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, vm := range f.vms {
		f.settle(vm)
	}
	f.vms = slices.DeleteFunc(f.vms, func(vm *fakeVM) bool { return !vm.goneAt.IsZero() && time.Now().After(vm.goneAt) })
	v, err := f.rpc(method, req)
	if err != nil {
		answer(w, 400, map[string]any{"error": err.Error()})
		return
	}
	answer(w, 200, v)
}

func (f *fakeVMM) rpc(method string, req request) (any, error) {
	switch method {
	case "Version":
		return map[string]any{"version": f.version, "rev": "0"}, nil
	case "ListImages":
		images := []any{}
		for _, name := range f.images {
			images = append(images, map[string]any{"name": name, "description": "", "version": "0.5.9", "is_dev": false})
		}
		return map[string]any{"images": images}, nil
	case "ListGpus":
		return map[string]any{"gpus": append([]map[string]any{}, f.gpus...), "allow_attach_all": true}, nil
	case "GetMeta":
		meta := map[string]any{"kms": map[string]any{"url": "https://kms.test", "urls": []string{"https://kms.test"}},
			"gateway":   map[string]any{"base_domain": "gw.fake.test", "port": 443, "urls": []string{"https://gw.test"}},
			"resources": map[string]any{"max_cvm_number": 10}}
		if f.modes != nil {
			meta["networking"] = map[string]any{"supported_modes": f.modes}
		}
		return meta, nil
	case "GetAppEnvEncryptPubKey":
		return f.envKey(*req.AppID)
	case "Status":
		rows := []any{}
		for _, vm := range f.vms {
			if len(req.IDs) == 0 || slices.Contains(req.IDs, vm.id) {
				rows = append(rows, vm.view(req.Brief))
			}
		}
		return map[string]any{"vms": rows, "port_mapping_enabled": false, "total": len(rows)}, nil
	case "CreateVm":
		return f.create(req)
	}
	vm := f.find(req.ID)
	if method == "GetInfo" {
		if vm == nil {
			return map[string]any{"found": false, "info": nil}, nil
		}
		return map[string]any{"found": true, "info": vm.view(false)}, nil
	}
	if vm == nil {
		return nil, fmt.Errorf("Failed to %s: vm not found", method)
	}
	switch old := before(f.version); {
	case method == "UpdateVm" && !old, method == "UpgradeApp":
		return f.update(vm, req)
	case method == "ResizeVm":
		return nil, f.resize(vm, req)
	case method == "StartVm":
		if !vm.goneAt.IsZero() {
			return nil, fmt.Errorf("VM is being removed")
		}
		vm.started = true
		if f.failStart {
			return nil, fmt.Errorf("Failed to start VM: no free GPU")
		}
		if !vm.running {
			vm.boot()
		}
		return nil, nil
	case method == "StopVm":
		vm.started = false
		if vm.running && vm.endsAt.IsZero() {
			vm.endsAt = time.Now().Add(f.stopping)
		}
		if vm.instanceID == "" {
			return nil, fmt.Errorf("Failed to stop VM: Process not found")
		}
		return nil, nil
	case method == "ShutdownVm":
		if !vm.running {
			return nil, fmt.Errorf("connect: no such device")
		}
		if f.hung {
			return nil, nil
		}
		if !f.silent {
			vm.started = false
		}
		vm.endsAt = time.Now().Add(f.stopping)
		return nil, nil
	case method == "RemoveVm":
		if old && vm.running {
			return nil, fmt.Errorf("VM is running, stop it first")
		}
		if vm.goneAt.IsZero() {
			vm.goneAt = time.Now().Add(f.removing)
		}
		return nil, nil
	}
	return nil, fmt.Errorf("Service not found: %s", method)
}

// before reports a version without UpdateVm.
func before(version string) bool { return version == "0.5.5" }

func (f *fakeVMM) find(id string) *fakeVM {
	for _, vm := range f.vms {
		if vm.id == id {
			return vm
		}
	}
	return nil
}

func (f *fakeVMM) create(req request) (any, error) {
	text, _ := json.Marshal(req)
	f.bodies = append(f.bodies, string(text))
	if !slices.Contains(f.images, *req.Image) {
		return nil, fmt.Errorf("Failed to load VM: Failed to load image")
	}
	f.next++
	vm := &fakeVM{config: req.config, id: fmt.Sprintf("00000000-0000-4000-8000-%012d", f.next)}
	sum := sha256.Sum256([]byte(f.private.PublicKey().Bytes()))
	vm.id = hex.EncodeToString(sum[:4]) + vm.id[8:]
	vm.VCPU, vm.Memory, vm.DiskSize, vm.Image = *req.VCPU, *req.Memory, *req.DiskSize, *req.Image
	if before(f.version) || f.version == "0.5.11" {
		vm.Networks = nil // an older host does not know the member
	}
	if vm.AppID == nil {
		sum := sha256.Sum256([]byte(vm.ComposeFile))
		id := hex.EncodeToString(sum[:20])
		vm.AppID = &id
	}
	if f.lie != nil {
		f.lie(&vm.config)
	}
	f.vms = append(f.vms, vm)
	if !req.Stopped {
		vm.started = true
		vm.boot()
	}
	return map[string]any{"id": vm.id}, nil
}

// update writes the document and the env before it looks at the rest.
func (f *fakeVMM) update(vm *fakeVM, req request) (any, error) {
	text, _ := json.Marshal(req)
	f.bodies = append(f.bodies, string(text))
	appID := ""
	if req.ComposeFile != "" {
		vm.ComposeFile = req.ComposeFile
		sum := sha256.Sum256([]byte(vm.ComposeFile))
		appID = hex.EncodeToString(sum[:20])
	}
	if req.EncryptedEnv != "" {
		vm.EncryptedEnv = req.EncryptedEnv
	}
	if !before(f.version) {
		if err := f.resize(vm, req); err != nil {
			return nil, err
		}
	}
	if req.GPUs != nil {
		vm.GPUs = req.GPUs
	}
	return map[string]any{"id": appID}, nil
}

func (f *fakeVMM) resize(vm *fakeVM, req request) error {
	if req.VCPU == nil && req.Memory == nil && req.DiskSize == nil && req.Image == nil {
		return nil
	}
	if f.failResize {
		return fmt.Errorf("Failed to resize disk")
	}
	if s := vm.status(); s != "stopped" && s != "exited" {
		return fmt.Errorf("vm should be stopped before resize: %s", vm.id)
	}
	if req.VCPU != nil {
		vm.VCPU = *req.VCPU
	}
	if req.Memory != nil {
		vm.Memory = *req.Memory
	}
	if req.DiskSize != nil {
		if *req.DiskSize < vm.DiskSize {
			return fmt.Errorf("Cannot shrink disk size")
		}
		vm.DiskSize = *req.DiskSize
	}
	if req.Image != nil {
		vm.Image = *req.Image
		if !slices.Contains(f.images, vm.Image) {
			return fmt.Errorf("Failed to load VM: Failed to load image")
		}
	}
	return nil
}

func (vm *fakeVM) boot() {
	vm.running, vm.endsAt = true, time.Time{}
	if vm.instanceID == "" {
		sum := sha256.Sum256([]byte(vm.id))
		vm.instanceID = hex.EncodeToString(sum[:20])
	}
}

func (f *fakeVMM) settle(vm *fakeVM) {
	if !vm.endsAt.IsZero() && time.Now().After(vm.endsAt) {
		vm.running, vm.endsAt = false, time.Time{}
	}
}

func (vm *fakeVM) status() string {
	switch {
	case !vm.goneAt.IsZero():
		return "removing"
	case vm.started && vm.running:
		return "running"
	case vm.started:
		return "exited"
	case vm.running:
		return "stopping"
	}
	return "stopped"
}

func (vm *fakeVM) view(brief bool) map[string]any {
	out := map[string]any{"id": vm.id, "name": vm.Name, "status": vm.status(), "uptime": vm.uptime, "app_url": nil, "app_id": *vm.AppID,
		"instance_id": nil, "configuration": nil, "exited_at": vm.exitedAt, "boot_progress": vm.progress, "boot_error": vm.bootError,
		"shutdown_progress": "", "image_version": "", "events": append([]map[string]any{}, vm.events...)}
	if vm.instanceID != "" {
		out["instance_id"] = vm.instanceID
		out["app_url"] = "https://" + vm.instanceID + "-8090.gw.fake.test"
	}
	if !brief {
		c := vm.config
		c.Stopped = !vm.started
		out["configuration"] = c
	}
	return out
}

func (f *fakeVMM) envKey(appID string) (any, error) {
	if f.kms == nil {
		return map[string]any{"public_key": hex.EncodeToString(f.private.PublicKey().Bytes()), "signature": "", "signature_v1": "", "timestamp": 0}, nil
	}
	key, err := f.kms.EnvKey(appID)
	if err != nil {
		return nil, err
	}
	stamp := uint64(time.Now().Unix())
	legacy, v1, err := f.kms.SignEnvKey(appID, stamp)
	if err != nil {
		return nil, err
	}
	return map[string]any{"public_key": hex.EncodeToString(key.PublicKey().Bytes()), "signature": hex.EncodeToString(legacy),
		"signature_v1": hex.EncodeToString(v1), "timestamp": stamp}, nil
}
