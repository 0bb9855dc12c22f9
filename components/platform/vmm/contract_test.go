package vmm_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/platformtest"
	"cadre.dev/platform/vmm"
)

// clientOf drives the hosts at urls, called a, b, c and so on.
func clientOf(t *testing.T, edit func(*vmm.Config), urls ...string) *vmm.Client {
	t.Helper()
	cfg := vmm.Config{ReadBackoff: time.Millisecond, CallTimeout: 5 * time.Second, Poll: 2 * time.Millisecond}
	for n, url := range urls {
		cfg.Endpoints = append(cfg.Endpoints, vmm.Endpoint{Name: string(rune('a' + n)), Region: "r1", URL: url})
	}
	if edit != nil {
		edit(&cfg)
	}
	c, err := vmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func template(revision int, envs ...string) platform.Template {
	allowed, err := json.Marshal(append([]string{}, envs...))
	if err != nil {
		panic(err) // texts only
	}
	text := `{"allowed_envs":` + string(allowed) + `,"docker_compose_file":"services: {app: {image: \"x@sha256:` + strconv.Itoa(revision) + `\"}} # <&>","key_provider":"kms","kms_enabled":true,"manifest_version":2,"name":"contract","runner":"docker-compose"}`
	return platform.Template{AppCompose: []byte(text), InstanceType: "tdx.small", OSImage: "dstack-0.5.9", DiskGB: 20}
}

// routes are the calls of this driver.
func routes(c platformtest.Call, _ string) (method, path string) {
	switch c {
	case platformtest.CallList, platformtest.CallListAll:
		return "POST", "/prpc/Status$"
	case platformtest.CallCreate:
		return "POST", "/prpc/CreateVm$"
	case platformtest.CallUpdate, platformtest.CallOSImage, platformtest.CallResize, platformtest.CallBoth:
		return "POST", "/prpc/UpdateVm$"
	case platformtest.CallDelete:
		return "POST", "/prpc/RemoveVm$"
	default:
		return "", "" // the driver measures on its own
	}
}

var modes = []platformtest.Mode{platformtest.Refuse, platformtest.Throttle, platformtest.ErrorBefore, platformtest.ErrorAfter,
	platformtest.ResetBefore, platformtest.ResetAfter}

func TestContract(t *testing.T) {
	for _, version := range []string{"0.5.11", "0.6.0"} {
		t.Run(version, func(t *testing.T) {
			platformtest.Run(t, func(t *testing.T) platformtest.Target {
				fake := newFake(t)
				fake.version = version
				client := clientOf(t, nil, fake.serve(t))
				return platformtest.Target{
					Platform: client, Template: template, Settle: 5 * time.Second, Inject: fake.inject, Route: routes, Modes: modes, Unified: true,
					NextAppID: client.NextAppID, Unreachable: clientOf(t, nil, "http://127.0.0.1:1"),
				}
			})
		})
	}
}

// Two hosts are one platform: faults hit the first, CVMs are on the other.
func TestContractOnTwoHosts(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Target {
		one, two := newFake(t), newFake(t)
		client := clientOf(t, nil, one.serve(t), two.serve(t))
		lose := func(node string) func() {
			host := map[string]*fakeVMM{"a": one, "b": two}[node]
			set := func(gone bool) {
				host.mu.Lock()
				defer host.mu.Unlock()
				host.gone = gone
			}
			set(true)
			return func() { set(false) }
		}
		return platformtest.Target{Platform: client, Template: template, Settle: 5 * time.Second, Unified: true, Lose: lose,
			NextAppID: client.NextAppID, Unreachable: clientOf(t, nil, "http://127.0.0.1:1", "http://127.0.0.1:2")}
	})
}

// A VMM without UpdateVm takes the same changes with two calls.
func TestContractOnAnOldHost(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Target {
		fake := newFake(t)
		fake.version = "0.5.5"
		client := clientOf(t, nil, fake.serve(t))
		return platformtest.Target{Platform: client, Template: template, Settle: 5 * time.Second, Unified: true, NextAppID: client.NextAppID}
	})
}
