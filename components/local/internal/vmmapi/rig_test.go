package vmmapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/cloud/cloudtest"
	"cadre.dev/local/internal/fault"
)

type obj = map[string]any

// rig is a cloud of two hosts whose machines run nothing.
type rig struct {
	*testing.T
	hv    *cloudtest.Hypervisor
	cl    *cloud.Cloud
	srv   *Server
	in    *fault.Injector
	calls *fault.Log
	hosts map[string]*httptest.Server
	local *httptest.Server
	dir   string
	token string // sent with every call
}

func newRig(t *testing.T, set cloud.Settings) *rig {
	t.Helper()
	r := &rig{T: t, hv: &cloudtest.Hypervisor{}, dir: t.TempDir()}
	r.open(set, "")
	t.Cleanup(r.close)
	return r
}

func (r *rig) open(set cloud.Settings, token string) {
	r.Helper()
	log := slog.New(slog.DiscardHandler)
	names := []string{"host-a", "host-b"}
	images := []string{"dstack-0.5.7", "dstack-0.5.9"}
	cl, err := cloud.Open(cloud.Config{Dir: r.dir, Hypervisor: r.hv, EnvKey: cloudtest.EnvKey, Images: images, Hosts: names, Settings: set, Log: log})
	if err != nil {
		r.Fatal(err)
	}
	r.cl, r.in, r.calls, r.hosts, r.token = cl, &fault.Injector{}, &fault.Log{}, map[string]*httptest.Server{}, token
	r.srv = New(Config{
		Cloud: cl, Hosts: names, Token: token, Domain: "gw.test", Images: images, EnvKey: cloudtest.EnvKey, Faults: r.in, Calls: r.calls, Log: log,
		LogDir: func(id string) string { return filepath.Join(r.dir, id) },
	})
	for _, name := range names {
		r.hosts[name] = httptest.NewServer(r.srv.Host(name))
	}
	r.local = httptest.NewServer(r.srv.Local())
}

func (r *rig) close() {
	for _, s := range r.hosts {
		s.CloseClientConnections()
		s.Close()
	}
	r.local.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r.cl.Close(ctx)
}

// try sends one call to a host; the error is a missing answer.
func (r *rig) try(ctx context.Context, host, method string, body any) (int, string, error) {
	r.Helper()
	text, ok := body.(string)
	if !ok {
		raw, err := json.Marshal(body)
		if err != nil {
			r.Fatal(err)
		}
		text = string(raw)
	}
	return r.send(ctx, http.MethodPost, r.hosts[host].URL+"/prpc/"+method+"?json", text, r.token)
}

func (r *rig) send(ctx context.Context, method, url, body, token string) (int, string, error) {
	r.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		r.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// A new connection each time: net/http repeats calls on a reused connection that closes.
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(raw)), err
}

// must makes a call that has to succeed.
func (r *rig) must(host, method string, body any) obj {
	r.Helper()
	code, text, err := r.try(r.Context(), host, method, body)
	if err != nil || code != 200 {
		r.Fatalf("%s at %s = %d %s, %v", method, host, code, text, err)
	}
	out := obj{}
	if text != "null" {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			r.Fatalf("%s answers %s: %v", method, text, err)
		}
	}
	return out
}

// refused makes a call that has to be an error with that text.
func (r *rig) refused(want, host, method string, body any) {
	r.Helper()
	code, text, err := r.try(r.Context(), host, method, body)
	var answer struct{ Error string }
	if err != nil || code != 400 || json.Unmarshal([]byte(text), &answer) != nil || !strings.Contains(answer.Error, want) {
		r.Errorf("%s at %s = %d %s, %v, want 400 with %q", method, host, code, text, err, want)
	}
}

// document is an app-compose.json with that compose text.
func document(compose string) string {
	text, _ := json.Marshal(obj{"manifest_version": 2, "name": "app", "runner": "docker-compose", "docker_compose_file": compose, "kms_enabled": true, "allowed_envs": []string{"A"}})
	return string(text)
}

func config(name string) obj {
	return obj{"name": name, "image": "dstack-0.5.7", "compose_file": document("services: {}"), "vcpu": 1, "memory": 2048, "disk_size": 20, "stopped": true}
}

// create makes a VM and returns its id.
func (r *rig) create(host string, change obj) string {
	r.Helper()
	c := config("vm")
	for k, v := range change {
		c[k] = v
	}
	id, _ := r.must(host, "CreateVm", c)["id"].(string)
	if id == "" {
		r.Fatal("CreateVm names no VM")
	}
	return id
}

// running makes a VM that is up.
func (r *rig) running(host string, change obj) string {
	r.Helper()
	id := r.create(host, change)
	r.must(host, "StartVm", obj{"id": id})
	r.await(host, id, "it is up", func(v obj) bool { return v["status"] == "running" && v["boot_progress"] == "done" })
	return id
}

// info describes a VM; nil: the host has none with that id.
func (r *rig) info(host, id string) obj {
	r.Helper()
	v, _ := r.must(host, "GetInfo", obj{"id": id})["info"].(obj)
	return v
}

// await polls a VM until good.
func (r *rig) await(host, id, what string, good func(obj) bool) obj {
	r.Helper()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		v := r.info(host, id)
		if good(v) {
			return v
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("waited until %s: %v", what, v)
		}
	}
}

func (r *rig) awaitStatus(host, id, status string) obj {
	r.Helper()
	return r.await(host, id, "status is "+status, func(v obj) bool { return v["status"] == status })
}

// local calls /_local/hosts.
func (r *rig) localCall(want int, method, path string, body any) string {
	r.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		r.Fatal(err)
	}
	code, answer, err := r.send(r.Context(), method, r.local.URL+"/_local/hosts"+path, string(text), "")
	if err != nil || code != want {
		r.Fatalf("%s %s = %d %s, %v, want %d", method, path, code, answer, err, want)
	}
	return answer
}

func (r *rig) config(host, id string) obj {
	r.Helper()
	c, _ := r.info(host, id)["configuration"].(obj)
	return c
}
