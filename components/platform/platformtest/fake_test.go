package platformtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/phala"
	"cadre.dev/platform/platformtest"
)

func newClient(t *testing.T, baseURL string) *phala.Client {
	t.Helper()
	c, err := phala.New(phala.Config{BaseURL: baseURL, APIKey: platformtest.Key, ReadBackoff: time.Millisecond, CallTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func template(revision int, envs ...string) platform.Template {
	names, err := json.Marshal(append([]string{}, envs...))
	if err != nil {
		panic(err) // texts only
	}
	text := `{"allowed_envs":` + string(names) + `,"docker_compose_file":"services: {app: {image: \"x@sha256:` + strconv.Itoa(revision) + `\"}} # <&>","manifest_version":2,"name":"contract","pre_launch_script":"true\\n"}`
	return platform.Template{AppCompose: []byte(text), InstanceType: "tdx.small", OSImage: "dstack-0.5.9", DiskGB: 20}
}

func TestPhalaOnFake(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Target {
		fake := platformtest.NewFake()
		baseURL, stop := fake.Serve()
		t.Cleanup(stop)
		client := newClient(t, baseURL)
		return platformtest.Target{
			Platform: client, Template: template, Settle: 5 * time.Second, Inject: fake.Inject,
			Hide: fake.SetHide, NextAppID: client.NextAppID, Unreachable: newClient(t, "http://127.0.0.1:1"),
		}
	})
}

// Creates of one client never overlap, and env values arrive decrypted.
func TestCreatesAreSerialised(t *testing.T) {
	fake := platformtest.NewFake()
	baseURL, stop := fake.Serve()
	defer stop()
	c := newClient(t, baseURL)
	tmpl := template(0, "WHO")
	tmpl.Env = map[string]string{"WHO": "me & you"}
	p, err := c.Provision(t.Context(), "", tmpl)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for i := range 4 {
		go func() {
			_, err := c.Create(context.Background(), platform.CreateRequest{Name: fmt.Sprintf("serial-%d", i), Provisioned: p, Template: tmpl})
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i := range 4 {
		name := fmt.Sprintf("serial-%d", i)
		if got := fake.Env(name)["WHO"]; got != "me & you" {
			t.Errorf("env of %s = %q", name, got)
		}
	}
	// Each create is its own provision and commit, side by side in the log.
	calls := fake.Calls()
	for i := 1; i < len(calls); i += 2 {
		if calls[i] != "POST /api/v1/cvms/provision" || calls[i+1] != "POST /api/v1/cvms" {
			t.Fatalf("creates overlapped: %v", calls)
		}
	}
}
