package api

import (
	"encoding/json"
	"testing"
	"time"

	"cadre.dev/core/appcompose"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fault"
	"cadre.dev/platform"
	"cadre.dev/platform/phala"
	"cadre.dev/platform/platformtest"
)

// The platform driver's own contract suite, against this API.
func TestPlatformContract(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Target {
		// AcceptLag only in the suite's own case: other cases take the visible state for the real
		// one.
		set := cloud.Settings{BootDelay: cloud.Duration(30 * time.Millisecond), CreateHidden: cloud.Duration(20 * time.Millisecond),
			DeleteLag: cloud.Duration(50 * time.Millisecond)}
		r := newRig(t, set)
		client := func(base string) *phala.Client {
			c, err := phala.New(phala.Config{BaseURL: base, APIKey: testKey, ReadBackoff: 10 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c := client(r.host.URL + "/api/v1")
		return platformtest.Target{
			Platform: c, NextAppID: c.NextAppID, Unreachable: client("http://127.0.0.1:1/api/v1"), Settle: 10 * time.Second,
			Template: func(revision int, envs ...string) platform.Template {
				text, err := appcompose.Render("contract", "services: {app: {image: x, command: r"+string(rune('0'+revision))+"}}", envs)
				if err != nil {
					t.Fatal(err)
				}
				return platform.Template{AppCompose: text, OSImage: "dstack-0.5.7", InstanceType: "tdx.small"}
			},
			Hide: func(lag time.Duration) {
				set := set
				set.AcceptLag = cloud.Duration(lag)
				r.cl.SetSettings(set)
			},
			Inject:  func(f platformtest.Fault) { r.inject(f) },
			Unified: true,
		}
	})
}

// inject arms the suite's fault in our terms.
func (r *rig) inject(f platformtest.Fault) {
	r.Helper()
	own := fault.Fault{Match: "^" + f.Method + ".*" + f.Path, Times: max(f.Times, 1)}
	switch f.Mode {
	case platformtest.Refuse:
		own.Effect, own.Status = fault.Status, 400
	case platformtest.Incompatible:
		own.Effect, own.Status, own.Body = fault.Status, 400, `{"detail":"configuration parameters not compatible"}`
	case platformtest.Busy:
		own.Effect, own.Status = fault.Status, 409
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
	case platformtest.OtherHash, platformtest.OtherText, platformtest.OwnText:
		body, err := json.Marshal(platformtest.Answers(f.Mode, ""))
		if err != nil {
			r.Fatal(err)
		}
		own.Effect, own.Status, own.Body = fault.Status, 200, string(body)
	}
	r.must(201, "POST", "/_local/faults", own)
}
