package vmmapi

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/appcompose"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fault"
	"cadre.dev/platform"
	"cadre.dev/platform/platformtest"
	"cadre.dev/platform/vmm"
)

// The driver's contract suite, against the endpoints of this package. With two hosts the suite's CVMs
// are spread, and faults hit whichever host is asked first.
func TestPlatformContract(t *testing.T) {
	for _, version := range []string{"0.5.11", "0.6.0"} {
		for hosts := range 2 {
			t.Run(version+" on "+strconv.Itoa(hosts+1), func(t *testing.T) {
				platformtest.Run(t, func(t *testing.T) platformtest.Target { return target(t, version, hosts+1) })
			})
		}
	}
}

func target(t *testing.T, version string, hosts int) platformtest.Target {
	t.Helper()
	r := newRig(t, cloud.Settings{
		BootDelay: cloud.Duration(30 * time.Millisecond), DeleteLag: cloud.Duration(50 * time.Millisecond), AcceptLag: cloud.Duration(5 * time.Millisecond),
		AutoRestart: cloud.Duration(50 * time.Millisecond), VMMVersion: version,
	})
	r.close()
	r.open(r.cl.Settings(), "secret")
	client := func(urls ...string) *vmm.Client {
		cfg := vmm.Config{Token: "secret", ReadBackoff: 5 * time.Millisecond, Poll: 5 * time.Millisecond}
		for n, url := range urls {
			cfg.Endpoints = append(cfg.Endpoints, vmm.Endpoint{Name: "host-" + string(rune('a'+n)), URL: url})
		}
		c, err := vmm.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	urls := []string{r.hosts["host-a"].URL, r.hosts["host-b"].URL}[:hosts]
	c := client(urls...)
	out := platformtest.Target{
		Platform: c, NextAppID: c.NextAppID, Unreachable: client("http://127.0.0.1:1"), Settle: 10 * time.Second, Unified: true,
		Template: func(revision int, envs ...string) platform.Template {
			text, err := appcompose.Render("contract", "services: {app: {image: x, command: r"+strconv.Itoa(revision)+"}}", envs)
			if err != nil {
				t.Fatal(err)
			}
			return platform.Template{AppCompose: text, OSImage: "dstack-0.5.7", InstanceType: "tdx.small", DiskGB: 20}
		},
	}
	if hosts == 1 { // a fault at one host of several leaves others that answer
		out.Inject, out.Route = r.inject, route
		out.Modes = []platformtest.Mode{platformtest.Refuse, platformtest.Throttle, platformtest.ErrorBefore, platformtest.ErrorAfter,
			platformtest.ResetBefore, platformtest.ResetAfter}
	}
	return out
}

// route is where the driver makes a call.
func route(c platformtest.Call, _ string) (method, path string) {
	names := map[platformtest.Call]string{
		platformtest.CallList: "Status", platformtest.CallListAll: "Status", platformtest.CallCreate: "CreateVm", platformtest.CallUpdate: "UpdateVm",
		platformtest.CallOSImage: "UpdateVm", platformtest.CallResize: "UpdateVm", platformtest.CallBoth: "UpdateVm", platformtest.CallDelete: "RemoveVm",
	}
	if names[c] == "" {
		return "", "" // the driver measures on its own
	}
	return "POST", "/prpc/" + names[c] + "$"
}

// inject arms the suite's fault in our terms.
func (r *rig) inject(f platformtest.Fault) {
	r.Helper()
	own := fault.Fault{Match: "^" + f.Method + ".*" + strings.TrimPrefix(f.Path, "^"), Times: max(f.Times, 1)}
	switch f.Mode {
	case platformtest.Refuse:
		own.Effect, own.Status = fault.Status, 400
	case platformtest.Throttle:
		own.Effect, own.Status, own.Headers = fault.Status, 429, map[string]string{"Retry-After": "0"}
	case platformtest.ErrorBefore:
		own.Effect, own.Status = fault.Status, 500
	case platformtest.ErrorAfter:
		own.Effect, own.Status = fault.StatusAfter, 500
	case platformtest.ResetBefore:
		own.Effect = fault.ResetBefore
	case platformtest.ResetAfter:
		own.Effect = fault.ResetAfter
	default:
		r.Fatalf("fault %s is none of a host", f.Mode)
	}
	if err := own.Check(); err != nil {
		r.Fatal(err)
	}
	if _, err := r.in.Add(own); err != nil {
		r.Fatal(err)
	}
}
