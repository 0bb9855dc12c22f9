package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/secret/secrettest"
)

const appID = "cccccccccccccccccccccccccccccccccccccccc"

func trustOf(t *testing.T, cloud *attestsim.Cloud) []byte {
	t.Helper()
	text, err := json.Marshal(attest.Trust{
		Cluster: "demo", CoordinatorAppID: appID, RootsPEM: string(cloud.RootPEM()), AllowSimulated: true,
		KeyProvider: attest.KeyProvider{Name: "kms", ID: cloud.KeyProviderID()}, Images: cloud.Images(),
		Collateral: attest.TrustCollateral{PCCSURL: "http://127.0.0.1:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// guestOf serves the guest agent of a CVM that is measured with the trust file.
func guestOf(t *testing.T, cloud *attestsim.Cloud, trust []byte) (socket string) {
	t.Helper()
	compose, err := json.Marshal(map[string]any{
		"manifest_version": 2, "name": "c", "runner": "docker-compose", "kms_enabled": true, "key_provider": "kms", "secure_time": true, "init_script": appcompose.InitScript,
		"docker_compose_file": "configs:\n  trust:\n    content: '" + string(trust) + "'\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	guest, err := cloud.Boot(attestsim.BootConfig{AppID: appID, AppCompose: compose, InstanceIDSeed: make([]byte, 20), OSImage: "dstack-0.5.11"})
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: guest.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return socket
}

// source returns the source file of the flags, which has also those without a description.
func source(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("flags.go")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func openCloud(t *testing.T) *attestsim.Cloud {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

// A trust file that is not measured ends the coordinator, for every combination of the attacker's
// settings.
func TestATT02_ATT17_NoFlagAndNoVariableAddsARoot(t *testing.T) {
	ours, mallory := openCloud(t), openCloud(t)
	socket := guestOf(t, ours, trustOf(t, ours))
	dir := t.TempDir()
	memory := secrettest.MemoryDir(t)
	theirs := filepath.Join(dir, "trust.json")
	if err := os.WriteFile(theirs, trustOf(t, mallory), 0o600); err != nil {
		t.Fatal(err)
	}
	var env, names []string
	if _, err := parse(nil, func(name string) string { env = append(env, name); return "" }); err == nil {
		t.Fatal("nothing was accepted")
	}
	args := func(extra ...string) []string {
		return append([]string{
			"--cluster=demo", "--slot=coordinator-0", "--replicas=1", "--trust-file=" + theirs, "--dstack-socket=" + socket, "--gateway-domain=gw.test",
			"--platform-api=http://127.0.0.1:1", "--platform-key-file=" + keyFile(t), "--state-dir=" + dir + "/s", "--run-dir=" + memory + "/r",
		}, extra...)
	}
	for _, m := range regexp.MustCompile(`set\.\w+Var\(&o\.\w+, "([a-z-]+)"|set\.String\("([a-z-]+)"`).FindAllStringSubmatch(source(t), -1) {
		names = append(names, m[1]+m[2])
	}
	if len(names) < 15 || len(env) < 6 {
		t.Fatalf("flags %v, variables %v", names, env)
	}
	unauthenticated := 0
	refused := func(what string, getenv func(string) string, extra ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := run(ctx, args(extra...), getenv)
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: ended with %v", what, err)
		} else if strings.Contains(err.Error(), "CONFIG_UNAUTHENTICATED") {
			unauthenticated++
		}
	}
	none := func(string) string { return "" }
	if err := run(t.Context(), args(), none); err == nil || !strings.Contains(err.Error(), "CONFIG_UNAUTHENTICATED") {
		t.Errorf("a trust file that is not measured: %v", err)
	}
	for _, value := range []string{theirs, string(mallory.RootPEM()), "true"} {
		for _, name := range names {
			if !slices.Contains([]string{"trust-file", "dstack-socket"}, name) {
				refused("--"+name, none, "--"+name+"="+value)
			}
		}
		for _, name := range env {
			refused(name, func(asked string) string {
				if asked == name {
					return value
				}
				return ""
			})
		}
	}
	// Some values do not have the form of their flag; most get this far.
	if unauthenticated < len(names) {
		t.Errorf("only %d of the attempts were refused for the trust file", unauthenticated)
	}
}

func keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("phak_test"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A coordinator that cannot detect a revoked machine does not start.
func TestATT06_ACoordinatorNeedsASourceOfCollateral(t *testing.T) {
	cloud := openCloud(t)
	var fields map[string]any
	if err := json.Unmarshal(trustOf(t, cloud), &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "collateral")
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trust.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	err = run(t.Context(), []string{
		"--cluster=demo", "--slot=coordinator-0", "--replicas=1", "--trust-file=" + path, "--dstack-socket=" + guestOf(t, cloud, text), "--gateway-domain=gw.test", "--platform-key-file=" + keyFile(t),
	}, func(string) string { return "" })
	if err == nil || !strings.Contains(err.Error(), "collateral.pccs_url") {
		t.Errorf("without a source: %v", err)
	}
}

// The released program contains no simulated manufacturer.
func TestATT02_SUP03_TheProgramHoldsNoTestRoot(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	path := filepath.Join(t.TempDir(), "cadre-coordinator")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range attestsim.Marks() {
		if bytes.Contains(program, []byte(text)) {
			t.Errorf("the program contains %q", text)
		}
	}
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(deps)) {
		if strings.Contains(pkg, "attestsim") || strings.HasSuffix(pkg, "storetest") || pkg == "testing" {
			t.Errorf("the program links %s", pkg)
		}
	}
}
