package vmm_test

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/platformtest"
	"cadre.dev/platform/vmm"
)

// The contract holds with a real dstack-vmm and its supervisor, built from source. Two parts stand in:
// a script takes QEMU's place, under images whose guests report no steps of their boot, and the shutdown of a guest, which the VMM asks of the guest over
// vsock, is a StopVm. Measured with dstack-vmm 0.5.11.
func TestContractOnARealVMM(t *testing.T) {
	r := needReal(t)
	platformtest.Run(t, func(t *testing.T) platformtest.Target {
		host := r.start(t)
		client := clientOf(t, realHost, host.front(t))
		return platformtest.Target{
			Platform: client, Template: template, Settle: 20 * time.Second, Unified: true, Inject: host.faults.inject, Route: routes, Modes: modes,
			NextAppID: client.NextAppID, Unreachable: clientOf(t, nil, "http://127.0.0.1:1"),
		}
	})
}

// A real host starts a CVM again whose process ended, from the files that lie there. A CVM that was
// stopped stays down.
func TestARealVMMStartsAnEndedCVM(t *testing.T) {
	r := needReal(t)
	host := r.start(t)
	client := clientOf(t, realHost, host.front(t))
	t1 := template(0)
	p, err := client.Provision(t.Context(), "", t1)
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.Create(t.Context(), platform.CreateRequest{Name: "ended", Provisioned: p, Template: t1})
	if err != nil {
		t.Fatal(err)
	}
	running := awaitReal(t, client, made.VMUUID, platform.Instance.Running)
	first := host.guest(t, made.VMUUID)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	down := awaitReal(t, client, made.VMUUID, func(i platform.Instance) bool { return !i.Running() })
	if down.StaysDown() {
		t.Errorf("an ended cvm that its host starts again reads as %+v, want in progress", down)
	}
	again := awaitReal(t, client, made.VMUUID, platform.Instance.Running)
	if again.InstanceID != running.InstanceID || host.guest(t, made.VMUUID) == first {
		t.Errorf("the host started %+v, want instance %s in another process", again, running.InstanceID)
	}
	if _, err := client.ForceStop(t.Context(), made.VMUUID); err != nil {
		t.Fatal(err)
	}
	awaitReal(t, client, made.VMUUID, platform.Instance.StaysDown)
	looks := host.looks(t)
	for host.looks(t) < looks+2 { // the host looked for ended CVMs meanwhile
		time.Sleep(50 * time.Millisecond)
	}
	if still, err := client.Describe(t.Context(), made.VMUUID); err != nil || !still.StaysDown() {
		t.Errorf("a stopped cvm is %+v, %v after the host looked for ended ones, want stopped", still, err)
	}
}

// A real host writes the compose file before it finds that a CVM which runs cannot get another size:
// an error with an effect. The driver therefore changes a stopped CVM only.
func TestARealVMMWritesBeforeItRefuses(t *testing.T) {
	r := needReal(t)
	host := r.start(t)
	base := host.front(t)
	client := clientOf(t, realHost, base)
	p, err := client.Provision(t.Context(), "", template(0))
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.Create(t.Context(), platform.CreateRequest{Name: "written", Provisioned: p, Template: template(0)})
	if err != nil {
		t.Fatal(err)
	}
	awaitReal(t, client, made.VMUUID, platform.Instance.Running)
	body, err := json.Marshal(map[string]any{"id": made.VMUUID, "compose_file": string(template(1).AppCompose), "vcpu": 2})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(base+"/prpc/UpdateVm?json", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	now, err := client.Describe(t.Context(), made.VMUUID)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusBadRequest || now.ComposeHash == p.ComposeHash || now.InstanceType != "tdx.small" {
		t.Errorf("UpdateVm of a cvm that runs = %d, then %+v; want 400, the new compose file and the old size", resp.StatusCode, now)
	}
}

func realHost(cfg *vmm.Config) {
	cfg.Poll, cfg.CallTimeout = 50*time.Millisecond, 20*time.Second
}

func awaitReal(t *testing.T, client *vmm.Client, id string, done func(platform.Instance) bool) platform.Instance {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		i, err := client.Describe(ctx, id)
		if err == nil && done(i) {
			return i
		}
		if ctx.Err() != nil {
			t.Fatalf("last seen: %+v, %v", i, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// real are the programs of a real VMM.
type real struct{ vmm, supervisor string }

func needReal(t *testing.T) real {
	t.Helper()
	dir := os.Getenv("CADRE_DSTACK_VMM")
	if dir == "" {
		t.Skip("CADRE_DSTACK_VMM names no folder with dstack-vmm and supervisor: their sources are on no package registry (docs/self-hosted.md)")
	}
	if os.Geteuid() != 0 {
		t.Skip("a VMM opens a vsock port, which needs root")
	}
	r := real{filepath.Join(dir, "dstack-vmm"), filepath.Join(dir, "supervisor")}
	for _, program := range []string{r.vmm, r.supervisor, "qemu-img"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// realVMM is one running VMM.
type realVMM struct {
	dir    string
	faults *fakeVMM // only its faults are used
}

// guestScript takes QEMU's place: it notes its process and the instance id that a guest reports, and waits.
const guestScript = `#!/bin/sh
if [ "$1" = --version ]; then echo "QEMU emulator version 8.2.2"; exit 0; fi
for a in "$@"; do case "$a" in
  local,path=*) shared=${a#local,path=}; shared=${shared%%,*};;
esac; done
[ -e "$shared/../pid" ] || printf '{"instance_id":"%s","app_id":"%040d"}' "$(head -c 20 /dev/urandom | od -An -tx1 | tr -d ' \n')" 0 > "$shared/.instance_info"
echo $$ > "$shared/../pid"
exec sleep 1000000
`

func (r real) start(t *testing.T) *realVMM {
	t.Helper()
	dir, err := os.MkdirTemp("", "vmm") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	v := &realVMM{dir, &fakeVMM{}}
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("qemu", guestScript, 0o700)
	for _, image := range []string{"dstack-0.5.9", "dstack-0.5.10"} {
		for _, file := range []string{"kernel", "initrd", "rootfs.img.verity", "ovmf"} {
			write(filepath.Join("images", image, file), "x", 0o600)
		}
		write(filepath.Join("images", image, "metadata.json"), fmt.Sprintf(
			`{"cmdline":"","kernel":"kernel","initrd":"initrd","rootfs":"rootfs.img.verity","bios":"ovmf","rootfs_hash":"00","shared_ro":false,"version":%q}`,
			strings.TrimPrefix(image, "dstack-")), 0o600)
	}
	kms := keyServiceStandIn(t)
	write("vmm.toml", fmt.Sprintf(`address = "unix:%[1]s/vmm.sock"
reuse = true
kms_url = %[3]q
run_path = "%[1]s/vms"
[image]
path = "%[1]s/images"
[cvm]
qemu_path = "%[1]s/qemu"
kms_urls = [%[3]q]
[cvm.auto_restart]
enabled = true
interval = 1
[supervisor]
exe = %[2]q
sock = "%[1]s/supervisor.sock"
pid_file = "%[1]s/supervisor.pid"
log_file = "%[1]s/supervisor.log"
[host_api]
address = "vsock:4294967295"
port = %[4]d
`, dir, r.supervisor, kms, 20000+os.Getpid()%20000), 0o600)
	log, err := os.Create(filepath.Join(dir, "vmm.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(r.vmm, "-c", filepath.Join(dir, "vmm.toml"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "RUST_BACKTRACE=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("dstack-vmm: %s", text[max(0, len(text)-4000):])
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = log.Close()
		v.endGuests()
	})
	for {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(dir, "vmm.sock"))
		if err == nil {
			_ = conn.Close()
			return v
		}
		if t.Context().Err() != nil || syscall.Kill(cmd.Process.Pid, 0) != nil {
			t.Fatal("dstack-vmm does not listen:", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// endGuests ends the processes that the supervisor started: it gives each a group of its own.
func (v *realVMM) endGuests() {
	files, _ := filepath.Glob(filepath.Join(v.dir, "vms", "*", "pid"))
	for _, file := range append(files, filepath.Join(v.dir, "supervisor.pid")) {
		if pid, err := readPID(file); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func readPID(file string) (pid int, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = fmt.Sscan(string(text), &pid)
	}
	return pid, err
}

// guest is the process of a CVM.
func (v *realVMM) guest(t *testing.T, id string) int {
	t.Helper()
	pid, err := readPID(filepath.Join(v.dir, "vms", id, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// looks counts how often the VMM looked for ended CVMs.
func (v *realVMM) looks(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(v.dir, "vmm.log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "Checking for exited VMs")
}

// front is the URL of the VMM by a proxy that turns ShutdownVm into StopVm, and has the faults.
func (v *realVMM) front(t *testing.T) string {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "vmm"})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(v.dir, "vmm.sock"))
	}}
	proxy.Transport = transport
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/prpc/ShutdownVm" {
			r.URL.Path = "/prpc/StopVm"
		}
		v.faults.fail(w, r, proxy)
	}))
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

// keyServiceStandIn answers the VMM's question for an app's env key.
func keyServiceStandIn(t *testing.T) string {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "GetAppEnvEncryptPubKey") {
			http.Error(w, `{"error":"not here"}`, http.StatusBadRequest)
			return
		}
		if err := json.NewEncoder(w).Encode(map[string]any{
			"public_key": hex.EncodeToString(key.PublicKey().Bytes()), "signature": "", "timestamp": 0, "signature_v1": "",
		}); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
