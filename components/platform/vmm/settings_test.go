package vmm_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/dstacksdk"
	"cadre.dev/platform"
	"cadre.dev/platform/platformtest"
	"cadre.dev/platform/vmm"
)

func TestParseEndpoints(t *testing.T) {
	got, err := vmm.ParseEndpoints("a=unix:///run/vmm.sock, b@eu-1=https://b.example:9080/vmm?networking=bridge,c@eu-1=http://10.0.0.3:9080")
	want := []vmm.Endpoint{
		{Name: "a", URL: "unix:///run/vmm.sock"},
		{Name: "b", Region: "eu-1", URL: "https://b.example:9080/vmm", Networking: vmm.NetworkBridge},
		{Name: "c", Region: "eu-1", URL: "http://10.0.0.3:9080"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("endpoints = %+v, %v, want %+v", got, err, want)
	}
	for text, problems := range map[string][]string{
		"":                                 {"empty"},
		"a":                                {"endpoint 1: want NAME"},
		"a=,":                              {`endpoint 1 ("a")`, "endpoint 2: want NAME"},
		"A=http://x,b@=http://y,b=ftp://z": {`"A"`, "lower-case", "region behind @ is empty", `endpoint 3 ("b")`, "used twice", "scheme"},
		"a=http://user:hidden@x,b=https://,c=unix://run/vmm.sock":    {`"a"`, "credentials", `"b"`, "no host", `"c"`, "no socket"},
		"a=http://x?networking=mesh,b=http://y?mode=user":            {`"a"`, "networking is", `"b"`, "only networking is known"},
		"a=http://x,b=http://x/":                                     {`"b"`, `the URL of "a"`},
		"a=http://x?networking=,b=http://%zz":                        {"networking is empty", "cannot be read"},
		"a=http://x#hidden":                                          {`"a"`, "fragment"},
		strings.Repeat("a=http://x,", 70) + "a=unix:///run/vmm.sock": {"at most 64"},
	} {
		got, err := vmm.ParseEndpoints(text)
		if err == nil {
			t.Errorf("%q = %+v without a problem", text, got)
			continue
		}
		for _, problem := range problems {
			if !strings.Contains(err.Error(), problem) {
				t.Errorf("%q: %v, want also %q", text, err, problem)
			}
		}
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: the error has the credentials: %v", text, err)
		}
	}
	if _, err := vmm.New(vmm.Config{Token: "a\nb", ShutdownTimeout: -1}); err == nil ||
		!strings.Contains(err.Error(), "endpoints are empty") || !strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "shutdown") {
		t.Errorf("a bad configuration: %v, want every problem", err)
	}
}

// Any size is an instance type, under one name.
func TestInstanceTypes(t *testing.T) {
	r := newRig(t)
	r.host.gpus = []map[string]any{{"slot": "18:00.0", "is_free": true}, {"slot": "2a:00.0", "is_free": true}, {"slot": "3a:00.0", "is_free": false}}
	offer, err := r.Offer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n, name := range []string{"tdx.small", "6x12288", "2x8192+1gpu"} {
		req := r.request("a-" + string(rune('0'+n)))
		req.Template.InstanceType = name
		if n > 0 {
			req.AppID = req.Provisioned.AppID
		}
		if err := offer.Check(req.Template); err != nil {
			t.Errorf("%s is not offered: %v", name, err)
		}
		if _, err := r.Create(t.Context(), req); err != nil {
			t.Errorf("create with %s: %v", name, err)
			continue
		}
		if i := r.byName(req.Name); i.InstanceType != name {
			t.Errorf("a cvm made with %s reads %s", name, i.InstanceType)
		}
	}
	for _, name := range []string{"tdx.huge", "2x4096", "6x12", "06x12288", "6x12288+0gpu", "x", "-1x4096", "6x99999999999", "6x12288+gpu"} {
		tmpl := template(0)
		tmpl.InstanceType = name
		if err := offer.Check(tmpl); !errors.Is(err, platform.ErrNotOffered) {
			t.Errorf("%q: %v, want ErrNotOffered", name, err)
		}
	}
	// A GPU of another CVM is not given away, even while that is stopped.
	gpu := r.byName("a-2")
	r.stop(gpu)
	req := r.request("a-3")
	req.AppID, req.Template.InstanceType = req.Provisioned.AppID, "2x8192+2gpu"
	if _, err := r.Create(t.Context(), req); !errors.Is(err, platform.ErrRefused) || !strings.Contains(err.Error(), "1 of 2 GPUs are free") {
		t.Errorf("create with more GPUs than there are: %v, want ErrRefused", err)
	}
	if _, err := r.Resize(t.Context(), gpu.VMUUID, platform.Shape{InstanceType: "2x8192+2gpu"}); err != nil {
		t.Errorf("a second GPU for the cvm: %v", err)
	}
	if i := r.byName("a-2"); i.InstanceType != "2x8192+2gpu" {
		t.Errorf("after the resize it reads %+v", i)
	}
	if _, err := r.Resize(t.Context(), gpu.VMUUID, platform.Shape{InstanceType: "2x8192"}); err != nil || r.byName("a-2").InstanceType != "2x8192" {
		t.Errorf("without GPUs: %v, %+v", err, r.byName("a-2"))
	}
}

// Older hosts know one network, newer ones a list.
func TestNetworking(t *testing.T) {
	for _, c := range []struct {
		version, mode string
		single, list  bool
	}{{"0.5.11", vmm.NetworkBridge, true, false}, {"0.6.0", vmm.NetworkUser, true, true}, {"0.6.0", "", false, false}, {"0.5.11", "", false, false}} {
		host := newFake(t)
		host.version = c.version
		r := &rig{T: t, host: host, Client: clientOf(t, func(cfg *vmm.Config) { cfg.Endpoints[0].Networking = c.mode }, host.serve(t))}
		r.create("a-0")
		sent := host.bodies[0]
		if got := strings.Contains(sent, `"networking":{"mode":"`+c.mode+`"}`); got != c.single {
			t.Errorf("version %s, networking %q: a single network is sent: %v, want %v", c.version, c.mode, got, c.single)
		}
		if got := strings.Contains(sent, `"networks":[{"mode":"`+c.mode+`"}]`); got != c.list {
			t.Errorf("version %s, networking %q: a list is sent: %v, want %v", c.version, c.mode, got, c.list)
		}
	}
}

func (f *fakeVMM) env(t *testing.T, name, appID string) map[string]string {
	t.Helper()
	private := f.private
	if f.kms != nil {
		var err error
		if private, err = f.kms.EnvKey(appID); err != nil {
			t.Fatal(err)
		}
	}
	var sealed string
	f.edit(t, name, func(vm *fakeVM) { sealed = vm.EncryptedEnv })
	got, err := platformtest.OpenEnv(private.Bytes(), sealed)
	if err != nil {
		t.Fatalf("the guest cannot read its env: %v", err)
	}
	return got
}

// The whole env set is replaced, by none too.
func TestEnvIsReplaced(t *testing.T) {
	r := newRig(t)
	tmpl := template(0, "WHO")
	tmpl.Env = map[string]string{"WHO": "me & you"}
	p, err := r.Provision(t.Context(), "", tmpl)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(t.Context(), platform.CreateRequest{Name: "a-0", Provisioned: p, Template: tmpl}); err != nil {
		t.Fatal(err)
	}
	made := r.byName("a-0")
	if got := r.host.env(t, "a-0", made.AppID); !maps.Equal(got, tmpl.Env) {
		t.Errorf("the guest reads %v, want %v", got, tmpl.Env)
	}
	r.stop(made)
	if _, err := r.Resize(t.Context(), made.VMUUID, platform.Shape{DiskGB: 40}); err != nil {
		t.Fatal(err)
	}
	if got := r.host.env(t, "a-0", made.AppID); !maps.Equal(got, tmpl.Env) {
		t.Errorf("after a resize the guest reads %v, want %v", got, tmpl.Env)
	}
	if err := r.update(made, 1); err != nil {
		t.Fatal(err)
	}
	if got := r.host.env(t, "a-0", made.AppID); len(got) != 0 {
		t.Errorf("after an update without env the guest reads %v, want none", got)
	}
}

// The values may have changed since the create that was interrupted.
func TestAContinuedCreateGetsTheEnvOfNow(t *testing.T) {
	for _, version := range []string{"0.5.5", "0.6.0"} {
		for name, now := range map[string]map[string]string{"other values": {"WHO": "later"}, "no values": nil} {
			r := newRig(t)
			r.host.version = version
			tmpl := template(0, "WHO")
			tmpl.Env = map[string]string{"WHO": "earlier"}
			p, err := r.Provision(t.Context(), "", tmpl)
			if err != nil {
				t.Fatal(err)
			}
			req := platform.CreateRequest{Name: "a-0", Provisioned: p, Template: tmpl}
			r.host.inject(platformtest.Fault{Path: "/prpc/StartVm", Mode: platformtest.ResetBefore})
			if _, err := r.Create(t.Context(), req); err == nil {
				t.Fatal("the create was not interrupted")
			}
			req.Template.Env = now
			if _, err := r.Create(t.Context(), req); err != nil || r.host.sent("CreateVm") != 1 {
				t.Errorf("%s on %s: %v after %d calls", name, version, err, r.host.sent("CreateVm"))
			}
			made := r.byName("a-0")
			if got := r.host.env(t, "a-0", made.AppID); !maps.Equal(got, now) || !made.Running() {
				t.Errorf("%s on %s: the guest reads %v, and the cvm is %s; want %v, running", name, version, got, made.Status, now)
			}
		}
	}
}

// Env is sealed for a key that the known service signed, and for no other.
func TestAForgedEnvKeyIsRefused(t *testing.T) {
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kms     *attestsim.Cloud
		refused bool
	}{"signed": {cloud, false}, "signed by another": {stranger, true}, "not signed": {nil, true}} {
		host := newFake(t)
		host.kms = c.kms
		r := &rig{T: t, host: host, Client: clientOf(t, func(cfg *vmm.Config) {
			cfg.KeyService = func(context.Context) ([]byte, error) { return cloud.KMSPublicKey(), nil }
		}, host.serve(t))}
		tmpl := template(0, "WHO")
		tmpl.Env = map[string]string{"WHO": "me"}
		p, err := r.Provision(t.Context(), "", tmpl)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Create(t.Context(), platform.CreateRequest{Name: "a-0", Provisioned: p, Template: tmpl})
		if c.refused {
			if !errors.Is(err, platform.ErrRefused) || !errors.Is(err, dstacksdk.ErrEnvKey) || host.sent("CreateVm") != 0 {
				t.Errorf("%s: create: %v after %d calls, want ErrEnvKey and none", name, err, host.sent("CreateVm"))
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: create: %v", name, err)
			continue
		}
		made := r.byName("a-0")
		if got := host.env(t, "a-0", made.AppID); !maps.Equal(got, tmpl.Env) {
			t.Errorf("%s: the guest reads %v, want %v", name, got, tmpl.Env)
		}
		r.stop(made)
		host.kms = stranger
		_, err = r.Update(t.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: p.ComposeHash, EnvKey: p.EnvKey, Env: tmpl.Env})
		if !errors.Is(err, platform.ErrRefused) || host.sent("UpdateVm") != 0 {
			t.Errorf("update with another key than the provisioned one: %v after %d calls, want ErrRefused and none", err, host.sent("UpdateVm"))
		}
		if _, err = r.Update(t.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: p.ComposeHash, Env: tmpl.Env}); !errors.Is(err, dstacksdk.ErrEnvKey) {
			t.Errorf("update with a stranger's key: %v, want ErrEnvKey", err)
		}
	}
}
