package daemon

import (
	"crypto/sha512"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/collateral"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	"cadre.dev/local/internal/api"
)

const demo = `
services:
  setup:
    image: test/shell
    network_mode: host
    command: ["sh", "-c", "echo %[1]s >> /data/log"]
    volumes: [data:/data]
  shell:
    image: test/shell
    network_mode: host
    user: "1000:1000"
    command: ["sh", "-c", "trap 'echo bye >> /own/log; exit 0' TERM; date +%%s.%%N >> /own/log; while :; do sleep 0.1; done"]
    volumes: [data:/data:ro, own:/own, mesh:/run/mesh, "/var/run/dstack.sock:/var/run/dstack.sock"]
    configs: [{source: conf, target: /etc/demo/deep/conf}]
    depends_on: {setup: {condition: service_completed_successfully}}
    restart: always
  tls:
    image: test/helper@sha256:00
    network_mode: host
    command: [helper-tls, %[1]s]
    volumes: [mesh:/run/mesh, "/var/run/dstack.sock:/var/run/dstack.sock"]
    healthcheck: {test: ["CMD", "/bin/sh", "-c", "test -d /run/mesh"], interval: 100ms, retries: 3}
    depends_on: {shell: {condition: service_started}}
volumes: {data: {}, own: {}, mesh: {driver_opts: {type: tmpfs, device: tmpfs}}}
configs: {conf: {content: "price $$5"}}
`

// evidence takes a quote inside real-0 and verifies it under the cloud's root.
func (s *site) evidence(data []byte) (policy.Claims, error) {
	self, err := os.Executable()
	if err != nil {
		return policy.Claims{}, err
	}
	code, out := s.call("POST", s.file.LocalURL+"/cvms/real-0/exec", obj{"service": "tls", "command": []string{self, "helper-quote", hex.EncodeToString(data)}})
	if code != 200 || out["code"] != 0.0 {
		return policy.Claims{}, fmt.Errorf("exec: %d %v", code, out)
	}
	var ev attest.Evidence
	if err := json.Unmarshal([]byte(out["stdout"].(string)), &ev); err != nil {
		return policy.Claims{}, err
	}
	pccs, err := collateral.NewPCCS(collateral.PCCSConfig{URL: s.file.PCCSURL})
	if err != nil {
		return policy.Claims{}, err
	}
	defer pccs.Close()
	verifier, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: []byte(s.file.RootPEM), Collateral: pccs})
	if err != nil {
		return policy.Claims{}, err
	}
	return verifier.Verify(s.Context(), ev, [64]byte(data))
}

func TestCVMForReal(t *testing.T) {
	s := start(t, t.TempDir())
	v := s.create("real-0", fmt.Sprintf(demo, "one"))
	instance := v["instance_id"].(string)

	t.Run("services see what the compose file says", func(t *testing.T) {
		for text, want := range map[string]string{
			"id -u; cat /etc/demo/deep/conf /data/log; touch /data/x 2>/dev/null || echo ro": "1000\nprice $5one\nro",
			"stat -c %u /own; hostname; ls -d /run/mesh":                                     "1000\nreal-0\n/run/mesh",
			"ls " + s.dir + " 2>/dev/null | wc -l":                                           "0",
		} {
			if got, _ := s.exec("real-0", "shell", text); got != want {
				t.Errorf("%s\n got %q\nwant %q", text, got, want)
			}
		}
	})
	t.Run("evidence verifies under the local root", func(t *testing.T) {
		data := sha512.Sum512([]byte("statement"))
		claims, err := s.evidence(data[:])
		if err != nil {
			t.Fatal(err)
		}
		if claims.InstanceID != instance || claims.ComposeHash != v["compose_hash"] || "app_"+claims.AppID != v["app_id"] || claims.KeyProviderID != s.file.KeyProvider.ID || claims.TCB.Status != "UpToDate" {
			t.Errorf("claims = %+v, CVM = %v", claims, v)
		}
		if m := s.file.Images["dstack-0.5.7"]; len(m) == 0 || m[0].MRTD != claims.MRTD {
			t.Errorf("image measurement %v, measured %s", m, claims.MRTD)
		}
		if out, code := s.exec("real-0", "shell", "curl -sf --unix-socket /var/run/dstack.sock -d '{}' http://localhost/Info | grep -o "+instance+" | head -1"); code != 0 || out != instance {
			t.Errorf("Info from inside: %q, %d", out, code)
		}
	})
	t.Run("gateway reaches it by both ids", func(t *testing.T) {
		for _, id := range []string{instance, strings.TrimPrefix(v["app_id"].(string), "app_")} {
			s.until("greeting by "+id, func() bool { got, err := s.greeting(id); return err == nil && got == "one" })
		}
		if out, code := s.exec("real-0", "", "curl -s -o /dev/null -w '%{http_code}' http://10.213.0.1/api/v1/auth/me"); code != 0 || out != "401" {
			t.Errorf("api from inside: %q, %d", out, code)
		}
		if out, code := s.exec("real-0", "", "curl -s -o /dev/null -w '%{http_code}' "+s.file.PCCSURLInCVM+"/tdx/certification/v4/qe/identity"); code != 0 || out != "200" {
			t.Errorf("collateral from inside: %q, %d", out, code)
		}
	})
	t.Run("update keeps disk and identity and ends services in order", func(t *testing.T) {
		hash := s.update("real-0", fmt.Sprintf(demo, "two"), appcompose.InitScript)
		now := s.up("real-0")
		if now["instance_id"] != instance || now["compose_hash"] != hash || now["compose_hash"] == v["compose_hash"] {
			t.Errorf("after the update: %v", now)
		}
		if got, _ := s.exec("real-0", "shell", "cat /data/log; grep -c bye /own/log"); got != "one\ntwo\n1" {
			t.Errorf("disk after the update = %q", got)
		}
		s.until("greeting of the new revision", func() bool { got, err := s.greeting(instance); return err == nil && got == "two" })
	})
	t.Run("pause and resume", func(t *testing.T) {
		s.local(204, "POST", "/cvms/real-0/pause", obj{"service": "tls"})
		if got, err := s.greeting(instance); err == nil {
			t.Errorf("a paused service answers %q", got)
		}
		s.local(204, "POST", "/cvms/real-0/resume", obj{"service": "tls"})
		if got, err := s.greeting(instance); err != nil || got != "two" {
			t.Errorf("after resume: %q, %v", got, err)
		}
		s.local(400, "POST", "/cvms/real-0/pause", obj{"service": "nobody"})
	})
	t.Run("isolate and rejoin", func(t *testing.T) {
		s.local(204, "POST", "/cvms/real-0/isolate", nil)
		if got, err := s.greeting(instance); err == nil {
			t.Errorf("an isolated CVM answers %q", got)
		}
		s.local(204, "POST", "/cvms/real-0/rejoin", nil)
		s.until("greeting after rejoin", func() bool { got, err := s.greeting(instance); return err == nil && got == "two" })
		if out, code := s.exec("real-0", "", "curl -s -m 3 -o /dev/null -w '%{http_code}' http://10.213.0.1/api/v1/auth/me"); code != 0 || out != "401" {
			t.Errorf("api from inside after rejoin: %q, %d", out, code)
		}
	})
	t.Run("evidence faults and a lost disk show at the next boot", func(t *testing.T) {
		s.local(204, "POST", "/cvms/real-0/evidence", obj{"DebugTD": true})
		s.api(200, "POST", "/cvms/real-0/shutdown", nil)
		s.settled("real-0")
		if _, err := s.evidence(make([]byte, 64)); err == nil {
			t.Error("a stopped CVM gives evidence")
		}
		s.api(200, "POST", "/cvms/real-0/start", nil)
		s.up("real-0")
		claims, err := s.evidence(make([]byte, 64))
		if err == nil {
			t.Errorf("evidence of a debug TD verifies: %+v", claims)
		}
		s.local(204, "POST", "/cvms/real-0/evidence", obj{})
		s.api(200, "POST", "/cvms/real-0/restart", obj{})
		s.up("real-0")
		if _, err := s.evidence(make([]byte, 64)); err != nil {
			t.Errorf("after healing: %v", err)
		}
		s.local(400, "POST", "/cvms/real-0/lose-disk", nil) // it runs
	})
	t.Run("kill leaves nothing and resets connections", func(t *testing.T) {
		_, ns := s.pidOf(v)
		if len(inNamespace(ns)) < 4 {
			t.Fatalf("processes in %s: %v", ns, inNamespace(ns))
		}
		c, err := tls.Dial("tcp", s.file.GatewayAddress, &tls.Config{ServerName: instance + "-7443s." + s.file.GatewayDomain, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s.local(204, "POST", "/cvms/real-0/kill", nil)
		if left := inNamespace(ns); len(left) > 0 {
			t.Errorf("processes %v outlived the kill", left)
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection after the kill: %v, want a reset", err)
		}
		s.until("status stopped", func() bool { return s.settled("real-0")["status"] == "stopped" })
		s.api(200, "POST", "/cvms/real-0/start", nil)
		s.up("real-0")
		if got, _ := s.exec("real-0", "shell", "cat /data/log; grep -c bye /own/log"); got != "one\ntwo\ntwo\ntwo\ntwo\n3" {
			t.Errorf("disk after the kill = %q", got)
		}
	})
	t.Run("two CVMs do not reach each other", func(t *testing.T) {
		app := strings.TrimPrefix(v["app_id"].(string), "app_")
		s.api(200, "POST", "/apps/"+app+"/instances", obj{"name": "real-1"})
		s.up("real-1")
		addr := s.local(200, "GET", "/cvms/real-0", nil)["address"].(string)
		for _, to := range []string{addr, "10.213.0.5", "1.1.1.1"} {
			if out, code := s.exec("real-1", "", "curl -sk -m 3 https://"+to+":7443/"); code != 7 && code != 28 {
				t.Errorf("%s from real-1: curl ended with %d: %s", to, code, out)
			}
		}
		forward, _ := s.exec("real-1", "", "cat /proc/sys/net/ipv4/ip_forward; ip route | wc -l")
		if !strings.HasSuffix(forward, "2") {
			t.Errorf("routes of a CVM: %q", forward)
		}
		// An app id means its CVMs in turn.
		for range 2 {
			c, err := tls.Dial("tcp", s.file.GatewayAddress, &tls.Config{ServerName: app + "-7443s." + s.file.GatewayDomain, InsecureSkipVerify: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		if by := s.local(200, "GET", "/gateway", nil)["active_by_cvm"].(obj); len(by) != 2 {
			t.Errorf("two connections by app id went to %v", by)
		}
	})
	t.Run("another image and size are what the guest proves", func(t *testing.T) {
		measured := func() policy.Measurement {
			claims, err := s.evidence(make([]byte, 64))
			if err != nil {
				t.Fatal(err)
			}
			return policy.Measurement{MRTD: claims.MRTD, RTMR0: claims.RTMR0, RTMR1: claims.RTMR1, RTMR2: claims.RTMR2}
		}
		before := s.settled("real-0")
		s.api(202, "PATCH", "/cvms/real-0/os-image", obj{"os_image_name": api.ImageSlug("dstack-0.5.11")})
		s.up("real-0")
		image := measured()
		if !slices.Contains(s.file.Images["dstack-0.5.11"], image) || slices.Contains(s.file.Images["dstack-0.5.7"], image) {
			t.Errorf("the boot measures %+v, not as dstack-0.5.11", image)
		}
		s.api(202, "PATCH", "/cvms/real-0/resources", obj{"instance_type": "tdx.large", "disk_size": 40})
		now := s.up("real-0")
		size := measured()
		if !slices.Contains(s.file.Images["dstack-0.5.11"], size) || size.RTMR0 == image.RTMR0 || size.RTMR1 != image.RTMR1 {
			t.Errorf("the larger boot measures %+v, the smaller %+v", size, image)
		}
		if now["instance_id"] != before["instance_id"] || now["compose_hash"] != before["compose_hash"] || now["resource"].(obj)["disk_in_gb"] != 40.0 {
			t.Errorf("after both changes: %v, before: %v", now, before)
		}
		s.api(422, "PATCH", "/cvms/real-0/resources", obj{"disk_size": 39})
	})
	t.Run("delete erases", func(t *testing.T) {
		_, ns := s.pidOf(v)
		uuid := v["vm_uuid"].(string)
		s.api(204, "DELETE", "/cvms/real-0", nil)
		s.until("real-0 is gone", func() bool { code, _ := s.call("GET", s.file.APIURL+"/cvms/"+uuid, nil); return code == 404 })
		if _, err := os.Stat(filepath.Join(s.dir, "cvms", uuid)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("disk is still there: %v", err)
		}
		if left := inNamespace(ns); len(left) > 0 {
			t.Errorf("processes %v outlived the deletion", left)
		}
	})
	s.stop()
	if left := (&stateDir{path: s.dir}).strays(); len(left) > 0 {
		t.Errorf("processes %v outlived the daemon", left)
	}
	if _, err := os.Stat(cloudFilePath(s.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Error("cloud.json is still there")
	}
}

func TestBadComposeIsABootErrorNamingServiceAndKey(t *testing.T) {
	s := start(t, t.TempDir())
	for name, c := range map[string]struct{ compose, want string }{
		"privileged":     {"services: {app: {image: test/shell, network_mode: host, command: x, privileged: true}}", "service app: privileged"},
		"unknown-image":  {"services: {app: {image: nobody/nothing:1, network_mode: host}}", `service app: image "nobody/nothing:1"`},
		"bridge-network": {"services: {app: {image: test/shell, command: x}}", "service app: network_mode"},
	} {
		p := s.api(200, "POST", "/cvms/provision", obj{"name": name, "compose_file": obj{"docker_compose_file": c.compose}})
		s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
		v := s.settled(name)
		if text, _ := v["boot_error"].(string); v["status"] != "stopped" || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v, boot_error %v", name, v["status"], v["boot_error"])
		}
	}
}

// containersFailed is all that a guest of dstack reports of containers that do not start.
const containersFailed = "failed to start containers"

func TestServicesAreRestartedAndBlockedDependantsAreABootError(t *testing.T) {
	s := start(t, t.TempDir())
	s.create("flaky-0", `
services:
  flaky:
    image: test/shell
    network_mode: host
    command: ["sh", "-c", "echo try >> /data/log; test $$(wc -l < /data/log) -gt 2 && exec sleep 1000; exit 3"]
    volumes: [data:/data]
    restart: on-failure
volumes: {data: {}}
`)
	s.until("third try stays up", func() bool {
		v := s.local(200, "GET", "/cvms/flaky-0", nil)["services"].([]any)[0].(obj)
		return v["state"] == "running" && v["restarts"] == 2.0
	})
	p := s.api(200, "POST", "/cvms/provision", obj{"name": "broken-0", "compose_file": obj{"docker_compose_file": `
services:
  first: {image: test/shell, network_mode: host, command: "false"}
  second: {image: test/shell, network_mode: host, command: sleep 1000, depends_on: {first: {condition: service_completed_successfully}}}
`}})
	s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	s.until("boot error of the blocked service", func() bool {
		_, v := s.call("GET", s.file.APIURL+"/cvms/broken-0", nil)
		text, _ := s.local(200, "GET", "/cvms/broken-0", nil)["boot_error"].(string)
		return v["status"] == "running" && v["boot_error"] == containersFailed && strings.Contains(text, "service second: depends on first, which ended with code 1")
	})
	s.api(200, "POST", "/cvms/broken-0/shutdown", nil)
	s.local(400, "POST", "/cvms/broken-0/exec", obj{"command": []string{"true"}})
}

func TestKilledDaemonLeavesNothingAndResumes(t *testing.T) {
	s := start(t, t.TempDir()) // for its checks; this one stops as it should
	s.stop()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	daemon := exec.Command(self, "helper-serve", dir)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	k := &site{T: t, dir: dir}
	k.until("cloud.json", func() bool {
		raw, err := os.ReadFile(cloudFilePath(dir))
		return err == nil && json.Unmarshal(raw, &k.file) == nil
	})
	if _, err := Cleanup(dir); !errors.Is(err, errInUse) {
		t.Errorf("cleanup beside a living daemon: %v", err)
	}
	v := k.create("real-0", fmt.Sprintf(demo, "one"))
	_, ns := k.pidOf(v)
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	k.until("every process of the CVM is gone", func() bool { return len(inNamespace(ns)) == 0 })
	// pid 1 of the CVM died with the daemon; its sockets and cloud.json are files.
	if got, err := Cleanup(dir); err != nil || got != (Cleaned{CVMs: 1, Ready: true}) {
		t.Errorf("Cleanup = %+v, %v", got, err)
	}
	if got, err := Cleanup(dir); err != nil || got != (Cleaned{}) {
		t.Errorf("Cleanup again = %+v, %v", got, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cvms", "*", "run")); len(left) > 0 {
		t.Errorf("cleanup left %v", left)
	}
	again := start(t, dir)
	if again.file.GatewayAddress != k.file.GatewayAddress || again.file.APIURL != k.file.APIURL {
		t.Errorf("the addresses %s, %s became %s, %s", k.file.GatewayAddress, k.file.APIURL, again.file.GatewayAddress, again.file.APIURL)
	}
	now := again.up("real-0")
	if now["instance_id"] != v["instance_id"] {
		t.Errorf("instance id %v became %v", v["instance_id"], now["instance_id"])
	}
	if got, _ := again.exec("real-0", "shell", "cat /data/log"); got != "one\none" {
		t.Errorf("disk after the daemon's death = %q", got)
	}
}
