package api

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

	"cadre.dev/attest/attestsim"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/cloud/cloudtest"
)

const testKey = "phak_test"

// rigImages are the OS images on offer.
var rigImages = []string{"dstack-0.5.7", "dstack-0.5.9"}

type rig struct {
	*testing.T
	hv   *cloudtest.Hypervisor
	cl   *cloud.Cloud
	host *httptest.Server
	hdr  http.Header
	dir  string
	pccs *attestsim.PCCS
	nets *networks // given to the next open; nil for none
	// sign signs env keys of the next open; nil for none.
	sign func(appID string, timestamp uint64) (legacy, v1 []byte, err error)
}

func newRig(t *testing.T, set cloud.Settings) *rig {
	t.Helper()
	r := &rig{T: t, hv: &cloudtest.Hypervisor{}, hdr: http.Header{"X-Api-Key": {testKey}}, dir: t.TempDir()}
	r.open(set)
	return r
}

func (r *rig) open(set cloud.Settings) {
	r.Helper()
	log := slog.New(slog.DiscardHandler)
	cl, err := cloud.Open(cloud.Config{Dir: r.dir, Hypervisor: r.hv, EnvKey: cloudtest.EnvKey, Images: rigImages, Settings: set, Log: log})
	if err != nil {
		r.Fatal(err)
	}
	cfg := Config{
		Cloud: cl, Key: testKey, Domain: "gw.test", Images: rigImages, EnvKey: cloudtest.EnvKey, Log: log,
		Gateway: func() any { return nil }, LogDir: func(uuid string) string { return filepath.Join(r.dir, uuid) },
	}
	cfg.PCCS, cfg.SignEnvKey = r.pccs, r.sign
	if r.nets != nil {
		cfg.Networks = r.nets
	}
	srv := New(cfg)
	r.cl, r.host = cl, httptest.NewServer(srv.Host())
	r.Cleanup(r.close)
}

func (r *rig) close() {
	r.host.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r.cl.Close(ctx)
}

// try sends one call; the error is a missing answer.
func (r *rig) try(method, path string, body any) (int, map[string]any, error) {
	r.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		r.Fatal(err)
	}
	if !strings.HasPrefix(path, "/_local") {
		path = "/api/v1" + path
	}
	req, err := http.NewRequestWithContext(r.Context(), method, r.host.URL+path, bytes.NewReader(text))
	if err != nil {
		r.Fatal(err)
	}
	req.Header = r.hdr.Clone()
	// A new connection each time: net/http repeats calls on a reused connection that closes.
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	out := map[string]any{}
	if json.Unmarshal(raw, &out) != nil {
		out["raw"] = string(raw)
	}
	return resp.StatusCode, out, nil
}

func (r *rig) call(method, path string, body any) (int, map[string]any) {
	r.Helper()
	code, out, err := r.try(method, path, body)
	if err != nil {
		r.Fatalf("%s %s: %v", method, path, err)
	}
	return code, out
}

func (r *rig) must(want int, method, path string, body any) map[string]any {
	r.Helper()
	code, out := r.call(method, path, body)
	if code != want {
		r.Fatalf("%s %s = %d %v, want %d", method, path, code, out, want)
	}
	return out
}

type obj = map[string]any

// create makes an app with one running CVM and returns its object.
func (r *rig) create(name, compose string, envs ...string) obj {
	r.Helper()
	p := r.must(200, "POST", "/cvms/provision", obj{"name": name, "compose_file": obj{"name": "app", "docker_compose_file": compose, "allowed_envs": envs}})
	made := r.must(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	return r.settled(made["vm_uuid"].(string))
}

// settled waits until the CVM has no operation.
func (r *rig) settled(ref string) obj {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		code, v := r.call("GET", "/cvms/"+ref, nil)
		if code == 200 && v["in_progress"] == false {
			return v
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("cvm %s does not settle: %d %v", ref, code, v)
		}
	}
}

func app(v obj) string { return strings.TrimPrefix(v["app_id"].(string), "app_") }
