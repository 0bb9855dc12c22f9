package phala

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"cadre.dev/platform"
)

const typesReply = `{"result":[{"name":"cpu","items":[{"id":"tdx.small","vcpu":1,"memory_mb":2048},{"id":"tdx.large","vcpu":4,"memory_mb":8192},{"id":"a","vcpu":8,"memory_mb":1024},{"id":"b","vcpu":8,"memory_mb":1024}]}]}`

// Only an answer that a server without the call gives leads to the older calls, and only for
// the rest of the process. Everything else is the answer to the call.
func TestOnlyA405FallsBackToTheOlderCalls(t *testing.T) {
	const vm = "/cvms/cvm_1"
	for _, c := range []struct {
		name string
		code int
		body string
		want []string // the writes of two changes
		err  error
	}{
		{"known", 202, `{"correlation_id":"op-1"}`, []string{vm, vm}, nil},
		{"not known", 405, `{"detail":"Method Not Allowed"}`, []string{vm, vm + "/resources", vm + "/resources"}, nil},
		{"a proxy's 405", 405, `<html>`, []string{vm, vm}, errors.ErrUnsupported},
		{"no such cvm", 404, `{"detail":"CVM not found"}`, []string{vm, vm}, platform.ErrNotFound},
		{"refused", 422, `{"detail":"x"}`, []string{vm, vm}, platform.ErrRefused},
		{"on a chain", 465, `{"detail":"x"}`, []string{vm, vm}, platform.ErrOnChain},
		{"no answer", 502, `<html>`, []string{vm, vm}, errors.ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			var writes []string
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/instance-types":
					_, _ = io.WriteString(w, typesReply)
				case r.Method == http.MethodGet:
					_, _ = io.WriteString(w, `{"status":"running"}`)
				default:
					writes = append(writes, r.URL.Path)
					if r.URL.Path == vm {
						w.WriteHeader(c.code)
						_, _ = io.WriteString(w, c.body)
					}
				}
			})
			for range 2 {
				got, err := client.Resize(t.Context(), "cvm_1", platform.Shape{InstanceType: "tdx.large", OSImage: "dstack-0.5.9-e18f5407"})
				switch {
				case c.err == nil && (err != nil || got.OSImage != (c.code == 202)):
					t.Errorf("Resize: %+v, %v", got, err)
				case errors.Is(c.err, errors.ErrUnsupported) && (err == nil || errors.Is(err, platform.ErrRefused)):
					t.Errorf("Resize: %v, want an outcome that is unknown", err)
				case c.err != nil && !errors.Is(c.err, errors.ErrUnsupported) && !errors.Is(err, c.err):
					t.Errorf("Resize: %v, want %v", err, c.err)
				}
			}
			if !slices.Equal(writes, c.want) {
				t.Errorf("sent %q, want %q", writes, c.want)
			}
		})
	}
}

// One call for several changes. A single change keeps its own call, which names an instance type,
// unless a time for the shutdown is set.
func TestTheUnifiedCallOnTheWire(t *testing.T) {
	var got string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/instance-types" {
			_, _ = io.WriteString(w, typesReply)
			return
		}
		body, _ := io.ReadAll(r.Body)
		got = r.URL.Path + " " + string(body)
	})
	const image = "dstack-0.5.9-e18f5407"
	for _, c := range []struct {
		shutdown time.Duration
		shape    platform.Shape
		want     string
	}{
		{0, platform.Shape{InstanceType: "tdx.large", DiskGB: 40, OSImage: image}, `/cvms/cvm_1 {"disk_size":40,"image":"` + image + `","memory":8192,"vcpu":4}`},
		{0, platform.Shape{InstanceType: "tdx.large", DiskGB: 40}, `/cvms/cvm_1/resources {"allow_restart":true,"disk_size":40,"instance_type":"tdx.large"}`},
		{0, platform.Shape{InstanceType: "gpu.odd", OSImage: image}, `/cvms/cvm_1/resources {"allow_restart":true,"instance_type":"gpu.odd"}`},
		{90 * time.Second, platform.Shape{DiskGB: 40}, `/cvms/cvm_1 {"allow_force_stop":true,"disk_size":40,"shutdown_timeout":90}`},
	} {
		client.shutdown = c.shutdown
		if _, err := client.Resize(t.Context(), "cvm_1", c.shape); err != nil || got != c.want+"\n" {
			t.Errorf("sent %s, %v, want %s", got, err, c.want)
		}
	}
	client.shutdown = 90 * time.Second
	if _, err := client.SetOSImage(t.Context(), "cvm_1", image); err != nil || got != `/cvms/cvm_1 {"allow_force_stop":true,"image":"`+image+`","shutdown_timeout":90}`+"\n" {
		t.Errorf("sent %s, %v", got, err)
	}
	for _, d := range []time.Duration{-time.Second, time.Second, time.Hour} {
		if _, err := New(Config{APIKey: "k", ShutdownTimeout: d}); err == nil {
			t.Errorf("a shutdown timeout of %s is taken", d)
		}
	}
}

// A CVM with changed vCPUs and memory may keep reading as its former type. Its hardware decides its
// type: otherwise the change would be repeated permanently.
func TestATypeIsNamedByWhatTheCVMHas(t *testing.T) {
	var shown string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/instance-types" {
			_, _ = io.WriteString(w, typesReply)
			return
		}
		_, _ = io.WriteString(w, `{"status":"running","resource":`+shown+`}`)
	})
	for resource, want := range map[string]string{
		`{"instance_type":"tdx.small","vcpu":4,"memory_in_gb":8}`:   "tdx.large",
		`{"instance_type":null,"vcpu":4,"memory_in_gb":8.0}`:        "tdx.large",
		`{"instance_type":"tdx.small","vcpu":1,"memory_in_gb":2}`:   "tdx.small",
		`{"instance_type":"a","vcpu":8,"memory_in_gb":1}`:           "a",
		`{"instance_type":"tdx.small","vcpu":8,"memory_in_gb":1}`:   "tdx.small", // two types fit
		`{"instance_type":"tdx.small","vcpu":3,"memory_in_gb":1.5}`: "tdx.small", // none does
		`{"instance_type":"gpu.odd","vcpu":4,"memory_in_gb":8}`:     "gpu.odd",
		`{"instance_type":"tdx.small"}`:                             "tdx.small",
	} {
		shown = resource
		if got, err := client.Describe(t.Context(), "cvm_1"); err != nil || got.InstanceType != want {
			t.Errorf("%s reads as %q, %v, want %q", resource, got.InstanceType, err, want)
		}
	}
}

// The gateway's domain goes into URLs: an invalid domain counts as unknown.
func TestTheGatewaysDomainIsADomain(t *testing.T) {
	var shown string
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"running","gateway":`+shown+`}`)
	})
	for gateway, want := range map[string]string{
		`{"base_domain":"Gw.Example.test"}`: "gw.example.test", `{"base_domain":null}`: "", `null`: "", `"x.test"`: "",
		`{"base_domain":"a.test/x"}`: "", `{"base_domain":"u@a.test"}`: "", `{"base_domain":"a.test:1"}`: "", `{"base_domain":"a..test"}`: "", `{"base_domain":"localhost"}`: "",
	} {
		shown = gateway
		if got, err := client.Describe(t.Context(), "cvm_1"); err != nil || got.GatewayDomain != want {
			t.Errorf("%s reads as %q, %v, want %q", gateway, got.GatewayDomain, err, want)
		}
	}
}
