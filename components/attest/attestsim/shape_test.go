package attestsim_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/core/policy"
)

// A shape shows in RTMR0 and vm_config, an image in every register except RTMR3; both are among the
// image's measurements of the Cloud.
func TestShapeAndImageAreMeasured(t *testing.T) {
	cloud := openCloud(t)
	v := newVerifier(t, cloud.RootPEM())
	cfg := bootConfig(t)
	measure := func(image string, shape attestsim.Shape) policy.Measurement {
		t.Helper()
		cfg.OSImage, cfg.Shape = image, shape
		c, err := v.Verify(context.Background(), quoted(t, cloud, cfg, [64]byte{1}), [64]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		m := policy.Measurement{MRTD: c.MRTD, RTMR0: c.RTMR0, RTMR1: c.RTMR1, RTMR2: c.RTMR2}
		if !slices.Contains(cloud.Images(image)[image], m) {
			t.Errorf("%s with %+v measures %+v, which is not listed", image, shape, m)
		}
		return m
	}
	small, large := measure("dstack-0.5.7", attestsim.Shapes[0]), measure("dstack-0.5.7", attestsim.Shapes[2])
	if small.RTMR0 == large.RTMR0 || small.MRTD != large.MRTD || small.RTMR1 != large.RTMR1 || small.RTMR2 != large.RTMR2 {
		t.Errorf("shapes measure\n%+v\n%+v, want them to differ in RTMR0 only", small, large)
	}
	if unset := measure("dstack-0.5.7", attestsim.Shape{}); unset != small {
		t.Errorf("no shape measures %+v, want that of the first, %+v", unset, small)
	}
	other := measure("dstack-0.5.11", attestsim.Shapes[0])
	if other.RTMR0 == small.RTMR0 || other.MRTD == small.MRTD || other.RTMR1 == small.RTMR1 || other.RTMR2 == small.RTMR2 {
		t.Errorf("images measure\n%+v\n%+v, want them to differ everywhere", small, other)
	}

	cfg.Shape = attestsim.Shapes[1]
	client, _, _ := sdkClient(t, cloud, cfg)
	reply, err := client.GetQuote(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		CPUs   int   `json:"cpu_count"`
		Memory int64 `json:"memory_size"`
	}
	if err := json.Unmarshal([]byte(reply.VmConfig), &config); err != nil || config.CPUs != 2 || config.Memory != 4<<30 {
		t.Errorf("vm_config %s, %v, want 2 vCPUs and 4 GiB", reply.VmConfig, err)
	}
}
