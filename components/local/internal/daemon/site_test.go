package daemon

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/appcompose"
	"cadre.dev/local/internal/api"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/images"
)

type obj = map[string]any

// site is a whole running cloud.
type site struct {
	*testing.T
	file CloudFile
	dir  string
	stop func()
}

func config(dir, self string, log io.Writer) Config {
	// Services find the same programs as this test.
	path := os.Getenv("PATH")
	env, see := map[string]string{"PATH": path}, filepath.SplitList(path)
	return Config{
		StateDir: dir, Program: self,
		Images: images.Map{Images: map[string]images.Image{
			"test/shell": {Env: env, Mounts: see}, "test/helper": {Env: env, Mounts: see, Entrypoint: []string{self}},
		}},
		Settings:  cloud.Settings{BootDelay: cloud.Duration(50 * time.Millisecond)},
		StopGrace: 10 * time.Second, Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

// start runs a daemon on dir, or skips where this machine cannot run CVMs.
func start(t *testing.T, dir string, change ...func(*Config)) *site {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: running CVMs needs root")
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("skipped: running CVMs needs bubblewrap (bwrap) on PATH")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan CloudFile, 1), make(chan error, 1)
	cfg := config(dir, self, &log)
	for _, c := range change {
		c(&cfg)
	}
	go func() { done <- Serve(ctx, cfg, func(f CloudFile) { ready <- f }) }()
	s := &site{T: t, dir: dir}
	ended := false
	s.stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("daemon: %v", err)
			}
		case <-time.After(60 * time.Second):
			t.Error("daemon does not stop")
		}
		if t.Failed() {
			s.logs()
			t.Logf("daemon log:\n%s", log.String())
		}
	}
	t.Cleanup(s.stop)
	select {
	case s.file = <-ready:
	case err := <-done:
		ended = true
		t.Fatalf("daemon: %v", err)
	}
	return s
}

func (s *site) call(method, url string, body any) (int, obj) {
	s.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader(text))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("X-API-Key", s.file.APIKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	out := obj{}
	_ = json.Unmarshal(raw, &out)
	return resp.StatusCode, out
}

func (s *site) api(want int, method, path string, body any) obj {
	s.Helper()
	code, out := s.call(method, s.file.APIURL+path, body)
	if code != want {
		s.Fatalf("%s %s = %d %v, want %d", method, path, code, out, want)
	}
	return out
}

func (s *site) local(want int, method, path string, body any) obj {
	s.Helper()
	code, out := s.call(method, s.file.LocalURL+path, body)
	if code != want {
		s.Fatalf("%s %s = %d %v, want %d", method, path, code, out, want)
	}
	return out
}

// until polls ok and fails with the name in its argument after a minute.
func (s *site) until(what string, ok func() bool) {
	s.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			s.logs()
			s.Fatalf("not in time: %s", what)
		}
	}
}

// logs shows the CVMs' output.
func (s *site) logs() {
	paths, _ := filepath.Glob(filepath.Join(s.dir, "cvms", "*", "logs", "*.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		s.Logf("%s:\n%s", filepath.Base(path), text)
	}
}

func (s *site) settled(ref string) obj {
	s.Helper()
	var v obj
	s.until(ref+" settles", func() bool {
		var code int
		code, v = s.call("GET", s.file.APIURL+"/cvms/"+ref, nil)
		return code == 200 && v["in_progress"] == false
	})
	return v
}

// up waits until the CVM runs and all its services were started.
func (s *site) up(ref string) obj {
	s.Helper()
	v := s.settled(ref)
	if v["status"] != "running" {
		s.Fatalf("%s is %v: %v", ref, v["status"], v["boot_error"])
	}
	s.until(ref+" has its services up", func() bool {
		return s.local(200, "GET", "/cvms/"+ref, nil)["boot_progress"] == "done"
	})
	return v
}

func (s *site) create(name, compose string) obj {
	s.Helper()
	return s.createWith(name, compose, appcompose.InitScript)
}

func (s *site) createWith(name, compose, initScript string) obj {
	s.Helper()
	p := s.api(200, "POST", "/cvms/provision", obj{"name": name, "image": api.ImageSlug("dstack-0.5.7"), "compose_file": obj{"name": "app", "docker_compose_file": compose, "init_script": initScript}})
	s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	return s.up(name)
}

// update moves a CVM to another compose file and returns at once, with the compose hash.
func (s *site) update(name, compose, initScript string) any {
	s.Helper()
	p := s.api(200, "POST", "/cvms/"+name+"/compose_file/provision", obj{"name": "app", "docker_compose_file": compose, "init_script": initScript})
	s.api(202, "PATCH", "/cvms/"+name+"/compose_file", obj{"compose_hash": p["compose_hash"]})
	return p["compose_hash"]
}

// exec runs a shell text in a CVM and returns its trimmed output and code.
func (s *site) exec(cvm, service, text string) (string, int) {
	s.Helper()
	out := s.local(200, "POST", "/cvms/"+cvm+"/exec", obj{"service": service, "command": []string{"/bin/sh", "-c", text}})
	return strings.TrimSpace(out["stdout"].(string) + out["stderr"].(string)), int(out["code"].(float64))
}

// greeting dials a TLS service through the gateway.
func (s *site) greeting(id string) (string, error) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 2 * time.Second}, "tcp", s.file.GatewayAddress, &tls.Config{
		ServerName: id + "-7443s." + s.file.GatewayDomain, InsecureSkipVerify: true, // the test server's key is of this boot
	})
	if err != nil {
		return "", err
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

// pidOf finds pid 1 of the CVM as the host sees it, and its network namespace.
func (s *site) pidOf(v obj) (int, string) {
	s.Helper()
	pid, ns := s.findPID(v)
	if pid == 0 {
		s.Fatalf("no pid 1 of %v", v["name"])
	}
	return pid, ns
}

func (s *site) findPID(v obj) (int, string) {
	s.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(raw), "cvm-init") && strings.Contains(string(raw), v["vm_uuid"].(string)) {
			ns, _ := os.Readlink(filepath.Join("/proc", e.Name(), "ns", "net"))
			pid, _ := strconv.Atoi(e.Name())
			return pid, ns
		}
	}
	return 0, ""
}

// inNamespace lists the processes in a network namespace.
func inNamespace(ns string) (pids []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if got, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns", "net")); err == nil && got == ns {
			pids = append(pids, e.Name())
		}
	}
	return pids
}
