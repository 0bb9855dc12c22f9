package phala

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/platform"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(Config{BaseURL: srv.URL, APIKey: "phak_secret", ReadBackoff: time.Millisecond, ReadAttempts: 3, CallTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRedirectsAreRefused(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get("X-API-Key") != "")
	}))
	defer other.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	_, err := c.Describe(t.Context(), "x")
	if err == nil || !strings.Contains(err.Error(), "redirects are refused") {
		t.Errorf("Describe through a redirect: %v", err)
	}
	if leaked.Load() {
		t.Error("the api key went to another host")
	}
}

func TestLenientDecoding(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status/batch" {
			_, _ = w.Write([]byte(`{"f0c4c9d2aa0b4f1f8f3c5a8b7d6e5f40":{"boot_error":"Failed to open\nencrypted data disk"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":17,"name":"web-0","app_id":"app_00112233445566778899AABBCCDDEEFF00112233",
			"vm_uuid":"F0C4C9D2AA0B4F1F8F3C5A8B7D6E5F40","instance_id":null,"status":" Starting ","in_progress":null,
			"progress":{"target":"running","started_at":null},"compose_hash":"0xAB","docker_compose_hash":"cd","resource":null,
			"node_info":"?","os":{"name":"dstack-0.5.9"},"updated_at":"2026-05-01T10:00:00.5","new_field":[1],
			"kms_info":{"encrypted_env_pubkey":"0x7b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13"}}`))
	})
	got, err := c.Describe(t.Context(), "f0c4c9d2-aa0b-4f1f-8f3c-5a8b7d6e5f40")
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "17" || got.AppID != "00112233445566778899aabbccddeeff00112233" || got.VMUUID != "f0c4c9d2-aa0b-4f1f-8f3c-5a8b7d6e5f40" ||
		got.Status != "starting" || !got.InProgress || got.ComposeHash != "ab" || got.OSImage != "dstack-0.5.9" ||
		len(got.EnvKey) != 32 || got.UpdatedAt.IsZero() || got.BootError != "Failed to open encrypted data disk" || got.InstanceID != "" {
		t.Errorf("Describe = %+v", got)
	}
}

// docker_compose_hash is the hash of the compose text alone, which is not the measured one. An
// absent updated_at is no time.
func TestNoHashIsTakenForAnother(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"web-0","status":"running","docker_compose_hash":"cd"}`)
	})
	got, err := c.Describe(t.Context(), "web-0")
	if err != nil || got.ComposeHash != "" || !got.UpdatedAt.IsZero() || !got.Running() {
		t.Errorf("Describe = %+v, %v", got, err)
	}
}

// TestARunningCVMHasItsBootError: a guest whose containers did not start runs, and no listing says why.
func TestARunningCVMHasItsBootError(t *testing.T) {
	const ill, well = "f0c4c9d2-aa0b-4f1f-8f3c-5a8b7d6e5f40", "f0c4c9d2-aa0b-4f1f-8f3c-5a8b7d6e5f41"
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status/batch" {
			_, _ = io.WriteString(w, `{"`+ill+`":{"status":"running","boot_error":"failed to start containers"},"`+well+`":{"status":"running","boot_error":""}}`)
			return
		}
		_, _ = io.WriteString(w, `[{"name":"web-0","vm_uuid":"`+ill+`","status":"running"},{"name":"web-1","vm_uuid":"`+well+`","status":"running"}]`)
	})
	got, err := c.List(t.Context(), "00112233445566778899aabbccddeeff00112233")
	if err != nil || len(got) != 2 || got[0].BootError != "failed to start containers" || got[1].BootError != "" {
		t.Errorf("List = %+v, %v", got, err)
	}
}

func TestINP07_PathID(t *testing.T) {
	for in, want := range map[string]string{
		"F0C4C9D2-AA0B-4F1F-8F3C-5A8B7D6E5F40":     "f0c4c9d2aa0b4f1f8f3c5a8b7d6e5f40",
		"00112233445566778899aabbccddeeff00112233": "app_00112233445566778899aabbccddeeff00112233",
		"cvm_x1": "cvm_x1", " web-0 ": "web-0", "17": "17",
	} {
		if got := pathID(in); got != want {
			t.Errorf("pathID(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		body    string
		want    []error
		unknown bool
	}{
		{"400 detail", 400, `{"detail":"CVM name \"n\" is already in use in this workspace"}`, []error{platform.ErrRefused}, false},
		{"422 list", 422, `{"detail":[{"loc":["body","name"],"msg":"field required","type":"missing"}]}`, []error{platform.ErrRefused}, false},
		{"404", 404, `{"error_code":"ERR-03-001","message":"gone"}`, []error{platform.ErrNotFound, platform.ErrRefused}, false},
		{"409 plain", 409, `{"detail":"busy"}`, []error{platform.ErrBusy, platform.ErrRefused}, false},
		{"409 coded", 409, `{"error_code":"ERR-03-007","message":"app id conflict"}`, []error{platform.ErrRefused}, false},
		{"429", 429, ``, []error{platform.ErrThrottled, platform.ErrRefused}, false},
		{"465", 465, `{"error_code":"ERR-01-005","message":"register"}`, []error{platform.ErrOnChain, platform.ErrRefused}, false},
		{"468", 468, `{"error_code":"ERR-01-008","message":"not allowed"}`, []error{platform.ErrOnChain, platform.ErrRefused}, false},
		{"466 page of a proxy", 466, `<html>`, nil, true},
		{"suspended", 403, `{"detail":"Workspace is suspended"}`, []error{platform.ErrSuspended, platform.ErrRefused}, false},
		{"403 of another reason", 403, `{"detail":"no access"}`, []error{platform.ErrRefused}, false},
		{"403 page of a proxy", 403, `<html>`, nil, true},
		{"404 page of a proxy", 404, `<html>`, nil, true},
		{"408", 408, `{"detail":"timeout"}`, nil, true},
		{"500", 500, `{"detail":"oops"}`, nil, true},
		{"503", 503, `{"detail":"later"}`, nil, true},
		{"302", 302, ``, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int32
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				w.Header().Set("X-Request-ID", "req-9")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			_, err := client.Restart(t.Context(), "cvm_1")
			if err == nil || !strings.Contains(err.Error(), "req-9") || strings.Contains(err.Error(), "phak_secret") {
				t.Errorf("error %v, want one with the request id and without the key", err)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("error %v is not %v", err, want)
				}
			}
			for kind, code := range map[error]string{platform.ErrSuspended: "WORKSPACE_SUSPENDED", platform.ErrOnChain: "CHAIN_REGISTRATION_REQUIRED"} {
				if errors.Is(err, kind) != strings.Contains(err.Error(), code) {
					t.Errorf("error %v: %s stands in it only where it holds", err, code)
				}
			}
			if c.unknown == errors.Is(err, platform.ErrRefused) {
				t.Errorf("error %v: refused = %v", err, !c.unknown)
			}
			if calls.Load() != 1 {
				t.Errorf("%d calls, want 1: a call with an effect is made once", calls.Load())
			}
		})
	}
}

// TestThePlatformsAdviceIsShown unchanged, in every form, on one line and bounded.
func TestThePlatformsAdviceIsShown(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for body, want := range map[string]string{
		`{"error_code":"ERR-02-005","message":"no slots","suggestions":["another node","less\nmemory"],"links":["https://docs.test/slots"]}`:                                      "ERR-02-005: no slots (it suggests: another node; less memory) (see https://docs.test/slots)",
		`{"error_code":"E","message":"m","suggestions":[{"title":"grow","message":"the disk"},7,{}],"links":[{"label":"docs","url":"https://d.test"},{"href":"https://e.test"}]}`: "E: m (it suggests: grow the disk) (see docs https://d.test, https://e.test)",
		`{"message":"m","suggestions":"all","links":{"a":1}}`:                "400 Bad Request: m",
		`{"message":"m","suggestions":["1","2","3","4","5","6"],"links":[]}`: "(it suggests: 1; 2; 3; 4; 5)",
		`{"message":"m","suggestions":["` + long + `"]}`:                     "(it suggests: " + long[:maxAdviceText] + "...)",
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, body)
		})
		if _, err := c.Restart(t.Context(), "cvm_1"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", body, err, want)
		}
	}
}

func TestTimeoutIsUnknown(t *testing.T) {
	release := make(chan struct{})
	c := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	c.timeout = 20 * time.Millisecond
	_, err := c.Restart(t.Context(), "cvm_1")
	if err == nil || errors.Is(err, platform.ErrRefused) || !strings.Contains(err.Error(), "no answer within 20ms") {
		t.Errorf("Restart without an answer: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Restart(ended, "cvm_1"); !errors.Is(err, platform.ErrRefused) {
		t.Errorf("Restart that was never sent: %v, want ErrRefused", err)
	}
}

func TestReadsRetryAfterThrottling(t *testing.T) {
	var calls atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = w.Write([]byte(`[]`))
	})
	if list, err := c.List(t.Context(), "ab"); err != nil || list == nil {
		t.Errorf("List = %v, %v, want an empty list", list, err)
	}
}

func TestPLT10_ListsAreNeverMadeUp(t *testing.T) {
	for _, body := range []string{`null`, `{}`, `{"items":null}`, `"x"`, `{"items":[],"total":3,"pages":1}`, strings.Repeat(" ", maxListReply+1)} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		for _, app := range []string{"", "ab"} {
			if list, err := c.List(t.Context(), app); err == nil {
				t.Errorf("List(%q) of reply %.40q = %v without an error", app, body, list)
			}
		}
	}
}

func TestAcceptedWithoutReadableBody(t *testing.T) {
	for body, want := range map[string]platform.Accepted{
		``: {}, `null`: {}, `<ok>`: {}, `"done"`: {},
		`{"status":"no_change","correlation_id":null}`:     {NoChange: true},
		`{"status":"in_progress","correlation_id":"op-1"}`: {Correlation: "op-1"},
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(body))
		})
		if got, err := c.Restart(t.Context(), "cvm_1"); err != nil || got != want {
			t.Errorf("reply %q: %+v, %v, want %+v", body, got, err, want)
		}
	}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"precondition_required"}`))
	})
	if _, err := c.Update(t.Context(), platform.UpdateRequest{VMUUID: "cvm_1", ComposeHash: "ab"}); !errors.Is(err, platform.ErrRefused) {
		t.Errorf("precondition_required: %v, want ErrRefused", err)
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	for _, cfg := range []Config{
		{}, {APIKey: "a\nb"}, {APIKey: "k", BaseURL: "ftp://x"}, {APIKey: "k", BaseURL: "https://u:p@x"}, {APIKey: "k", BaseURL: "https://x?a=b"}, {APIKey: "k", BaseURL: "https:///p"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("New(%+v) succeeded", cfg)
		}
	}
}

func FuzzDecodeCVM(f *testing.F) {
	f.Add([]byte(`{"id":1,"progress":{"target":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var row cvm
		if json.Unmarshal(b, &row) == nil {
			_ = row.instance()
		}
		var e Error
		e.readBody(b)
		if strings.ContainsAny(e.Message, "\n\x1b") {
			t.Errorf("message %q has control characters", e.Message)
		}
	})
}

// TestAForcedRestartAsksNoGuest: the two differ in one field.
func TestAForcedRestartAsksNoGuest(t *testing.T) {
	var asked []string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+path.Base(r.URL.Path)+" "+strings.TrimSpace(string(data)))
		_, _ = w.Write([]byte(`{}`))
	})
	for _, call := range []func(context.Context, string) (platform.Accepted, error){client.Restart, client.ForceRestart} {
		if _, err := call(t.Context(), "cvm_1"); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{`POST restart {"force":false}`, `POST restart {"force":true}`}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}
