package phala

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/platform"
)

// A refusal, or a "nothing to do", about a CVM in transition is busy, in any words of the platform:
// the caller asks again when the CVM is idle.
func TestChangesOfACVMUnderWay(t *testing.T) {
	const nothing, refusal = `{"status":"no_change"}`, `{"detail":"CVM is not in a state that can be updated"}`
	for _, c := range []struct {
		name    string
		code    int // of the change
		body    string
		looked  int // of the look
		cvm     string
		want    []error // nil: accepted
		refused bool
	}{
		{"deleting, 400", 400, refusal, 200, `{"status":"deleting"}`, []error{platform.ErrBusy}, true},
		{"deleting, coded 409", 409, `{"error_code":"ERR-03-009","message":"terminating"}`, 200, `{"status":"Deleting"}`, []error{platform.ErrBusy}, true},
		{"in progress, 422", 422, refusal, 200, `{"status":"running","in_progress":true}`, []error{platform.ErrBusy}, true},
		{"with a target, 400", 400, refusal, 200, `{"status":"running","progress":{"target":"stopped"}}`, []error{platform.ErrBusy}, true},
		{"shutting down, nothing to do", 202, nothing, 200, `{"status":"shutting_down"}`, []error{platform.ErrBusy}, true},
		{"stopping, nothing to do", 202, nothing, 200, `{"status":"stopping"}`, []error{platform.ErrBusy}, true},
		{"still, nothing to do", 202, nothing, 200, `{"status":"running"}`, nil, false},
		{"stopped, nothing to do", 202, nothing, 200, `{"status":"stopped"}`, nil, false},
		{"still, 400", 400, refusal, 200, `{"status":"running"}`, []error{platform.ErrRefused}, true},
		{"gone while it was looked at", 400, refusal, 404, `{"detail":"gone"}`, []error{platform.ErrRefused}, true},
		{"the look has no answer", 400, refusal, 502, `<html>`, []error{platform.ErrBusy}, true},
		{"the look is throttled", 400, refusal, 429, `{}`, []error{platform.ErrBusy}, true},
		{"gone", 404, `{"detail":"gone"}`, 200, `{}`, []error{platform.ErrNotFound}, true},
		{"no answer", 502, `<html>`, 200, `{"status":"deleting"}`, []error{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			writes := 0
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/os-images" {
					http.NotFound(w, r)
					return
				}
				if r.Method == http.MethodGet {
					w.Header().Set("Retry-After", "0")
					w.WriteHeader(c.looked)
					_, _ = io.WriteString(w, c.cvm)
					return
				}
				writes++
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			})
			for name, call := range map[string]func() (platform.Accepted, error){
				"set os image": func() (platform.Accepted, error) { return client.SetOSImage(t.Context(), "cvm_1", "dstack-0.5.9") },
				"resize": func() (platform.Accepted, error) {
					return client.Resize(t.Context(), "cvm_1", platform.Shape{DiskGB: 9})
				},
				"update": func() (platform.Accepted, error) {
					return client.Update(t.Context(), platform.UpdateRequest{VMUUID: "cvm_1", ComposeHash: "ab"})
				},
			} {
				writes = 0
				_, err := call()
				if (err == nil) != (c.want == nil) || errors.Is(err, platform.ErrRefused) != c.refused {
					t.Errorf("%s = %v, want %v, certainly without effect: %v", name, err, c.want, c.refused)
				}
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("%s = %v, want %v", name, err, want)
					}
				}
				if errors.Is(err, platform.ErrBusy) && !slices.Contains(c.want, platform.ErrBusy) {
					t.Errorf("%s = %v, which is not of the moment", name, err)
				}
				if writes != 1 {
					t.Errorf("%s was sent %d times", name, writes)
				}
			}
		})
	}
}

// The request of each change, without unrequested fields.
func TestChangesOnTheWire(t *testing.T) {
	var got string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/os-images" {
			_, _ = io.WriteString(w, `{"items":[{"name":"dstack-0.5.9","slug":"dstack-0.5.9-e18f5407"},{"name":"dstack-0.5.11","slug":"dstack-0.5.11-00000001"}],"pages":1}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + string(body)
		w.WriteHeader(http.StatusAccepted)
	})
	const vm = "00000000-0000-4000-8000-00000000beef"
	for _, step := range []struct {
		call func() (platform.Accepted, error)
		want string
	}{
		{func() (platform.Accepted, error) { return c.SetOSImage(t.Context(), vm, "dstack-0.5.9") },
			`PATCH /cvms/0000000000004000800000000000beef/os-image {"os_image_name":"dstack-0.5.9-e18f5407"}`},
		{func() (platform.Accepted, error) { return c.Resize(t.Context(), vm, platform.Shape{DiskGB: 40}) },
			`PATCH /cvms/0000000000004000800000000000beef/resources {"allow_restart":true,"disk_size":40}`},
		{func() (platform.Accepted, error) {
			return c.Resize(t.Context(), vm, platform.Shape{InstanceType: "tdx.large"})
		}, `PATCH /cvms/0000000000004000800000000000beef/resources {"allow_restart":true,"instance_type":"tdx.large"}`},
	} {
		if _, err := step.call(); err != nil || got != step.want+"\n" {
			t.Errorf("sent %s, %v, want %s", got, err, step.want)
		}
	}
}

// The server refuses a short name, and one of two builds is not for the driver to choose.
func TestImagesAreNamedInFull(t *testing.T) {
	const list = `{"items":[{"name":"dstack-0.5.9","slug":"dstack-0.5.9-e18f5407"},{"name":"dstack-0.6.0","slug":"dstack-0.6.0-aaaaaaaa"},
		{"name":"dstack-0.6.0","slug":"dstack-0.6.0-bbbbbbbb"}],"pages":1}`
	for _, c := range []struct {
		image, list, want, refusal string
	}{
		{"dstack-0.5.9", list, "dstack-0.5.9-e18f5407", ""},
		{"dstack-0.5.9-e18f5407", list, "dstack-0.5.9-e18f5407", ""},
		{"dstack-0.5", list, "dstack-0.5", ""},
		{"dstack-0.6.0", list, "", "dstack-0.6.0-aaaaaaaa, dstack-0.6.0-bbbbbbbb"},
		{"dstack-0.5.9", `"?"`, "dstack-0.5.9", ""},
	} {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.list) })
		got, err := client.imageSlug(t.Context(), c.image)
		if got != c.want || (c.refusal == "") != (err == nil) {
			t.Errorf("%s of %s = %s, %v, want %s", c.image, c.list, got, err, c.want)
		}
		if c.refusal != "" && (!errors.Is(err, platform.ErrRefused) || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s: %v, want a refusal that names %s", c.image, err, c.refusal)
		}
	}
}

func TestShapeOfACVM(t *testing.T) {
	for body, want := range map[string]platform.Shape{
		`{"resource":{"instance_type":"tdx.small","disk_in_gb":20},"disk_size":10}`: {InstanceType: "tdx.small", DiskGB: 20},
		`{"resource":{"disk_in_gb":null},"disk_size":"40"}`:                         {DiskGB: 40},
		`{"resource":null}`: {}, `{"resource":"?"}`: {}, `{}`: {},
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		got, err := c.Describe(t.Context(), "cvm_1")
		if err != nil || (platform.Shape{InstanceType: got.InstanceType, DiskGB: got.DiskGB}) != want {
			t.Errorf("%s reads as %+v, %v, want %+v", body, got, err, want)
		}
	}
}

func TestOffer(t *testing.T) {
	const nodes = `{"nodes":[{"teepod_id":1,"images":[{"name":"a"},{"name":"b"}]},{"teepod_id":2,"images":[{"name":"c"}]}]}`
	for _, c := range []struct {
		name         string
		code         int
		types, nodes string
		want         platform.Offer
		fails        bool
	}{
		{"items", 200, `{"items":[{"id":"s","name":"Small"},{"id":"m"}]}`, nodes, platform.Offer{OSImages: []string{"a", "b", "c"}, InstanceTypes: []string{"s", "m"}}, false},
		{"families", 200, `{"result":[{"name":"cpu","items":[{"id":"s"}]},{"name":"gpu","items":[{"id":"g"}]}]}`, `{"nodes":[]}`, platform.Offer{InstanceTypes: []string{"s", "g"}}, false},
		{"an array", 200, `[{"id":"s"}]`, `{"nodes":[]}`, platform.Offer{InstanceTypes: []string{"s"}}, false},
		{"no such list", 404, `{"detail":"Not Found"}`, nodes, platform.Offer{OSImages: []string{"a", "b", "c"}}, false},
		{"not a list", 200, `"?"`, nodes, platform.Offer{OSImages: []string{"a", "b", "c"}}, false},
		{"no answer", 500, `oops`, nodes, platform.Offer{}, true},
		{"no nodes", 200, `[]`, `null`, platform.Offer{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/teepods/available" {
					_, _ = io.WriteString(w, c.nodes)
					return
				}
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.types)
			})
			got, err := client.Offer(t.Context())
			if (err != nil) != c.fails {
				t.Fatalf("Offer = %+v, %v", got, err)
			}
			if !c.fails && (!slices.Equal(got.OSImages, c.want.OSImages) || !slices.Equal(got.InstanceTypes, c.want.InstanceTypes) || (got.InstanceTypes == nil) != (c.want.InstanceTypes == nil)) {
				t.Errorf("Offer = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		base      string
		set, want time.Duration
	}{
		{"", 0, DefaultSettle}, {"", -1, DefaultSettle}, {"", time.Second, time.Second},
		{"https://cloud.test", 0, DefaultSettle}, {"http://cloud.test", 0, LocalSettle}, {"http://cloud.test", time.Minute, time.Minute},
	} {
		got, err := New(Config{BaseURL: c.base, APIKey: "k", Settle: c.set})
		if err != nil || got.Habits().Settle != c.want {
			t.Errorf("Settle of %q set to %s = %s, %v, want %s", c.base, c.set, got.Habits().Settle, err, c.want)
		}
	}
}
