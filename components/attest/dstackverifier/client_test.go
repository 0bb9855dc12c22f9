package dstackverifier

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
)

var reportData = [64]byte{1, 2, 3}

const providerText = `{"name":"kms","id":"3059"}`

// goodAnswer is a correct answer.
func goodAnswer() map[string]any {
	return map[string]any{
		"is_valid": true, "reason": nil,
		"details": map[string]any{
			"quote_verified": true, "event_log_verified": true, "os_image_hash_verified": true,
			"report_data": hex.EncodeToString(reportData[:]), "tcb_status": "UpToDate", "advisory_ids": []any{},
			"app_info": map[string]any{
				"app_id": strings.Repeat("01", 20), "compose_hash": strings.Repeat("02", 32), "instance_id": strings.Repeat("03", 20),
				"device_id": strings.Repeat("04", 32), "mr_system": strings.Repeat("05", 32), "mr_aggregated": strings.Repeat("06", 32),
				"os_image_hash": strings.Repeat("07", 32), "key_provider_info": hex.EncodeToString([]byte(providerText)),
			},
		},
	}
}

func codeOf(err error) policy.Code {
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return refused.Code
	}
	return ""
}

func verify(t *testing.T, handler http.HandlerFunc, change func(*Config)) (policy.Claims, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	cfg := Config{URL: server.URL}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Verify(context.Background(), Evidence{Quote: []byte{4, 0}, EventLog: "[]", VMConfig: "{}"}, reportData)
}

func answering(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func TestAGoodAnswerBecomesClaims(t *testing.T) {
	a := goodAnswer()
	d := a["details"].(map[string]any)
	d["tcb_status"], d["advisory_ids"] = "SWHardeningNeeded", []any{"INTEL-SA-2", "INTEL-SA-1", "INTEL-SA-2"}
	// Additions of newer versions are ignored.
	d["acpi_tables_verified"], d["os_image_is_dev"], d["tee_variant"] = true, false, "tdx"
	got, err := verify(t, func(w http.ResponseWriter, r *http.Request) {
		var request map[string]any
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.Method != http.MethodPost || r.URL.Path != "/verify" {
			t.Errorf("request %s %s: %v", r.Method, r.URL.Path, err)
		}
		want := map[string]any{"quote": "0400", "event_log": "[]", "vm_config": "{}", "attestation": nil, "debug": false}
		if !maps.Equal(request, want) {
			t.Errorf("request %v, want %v", request, want)
		}
		_ = json.NewEncoder(w).Encode(a)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.AppID != strings.Repeat("01", 20) || got.ComposeHash != strings.Repeat("02", 32) || got.InstanceID != strings.Repeat("03", 20) ||
		got.OSImageHash != strings.Repeat("07", 32) || got.KeyProviderName != "kms" || got.KeyProviderID != "3059" ||
		got.TCB.Status != "SWHardeningNeeded" || strings.Join(got.TCB.Advisories, " ") != "INTEL-SA-1 INTEL-SA-2" {
		t.Errorf("claims %+v", got)
	}
}

func TestATT27_OddAnswersAreRefused(t *testing.T) {
	type m = map[string]any
	details := func(change func(d m)) func(m) { return func(a m) { change(a["details"].(m)) } }
	info := func(change func(i m)) func(m) { return details(func(d m) { change(d["app_info"].(m)) }) }
	edits := map[string]func(m){
		"invalid":                     func(a m) { a["is_valid"] = false; a["reason"] = "debug" },
		"valid is missing":            func(a m) { delete(a, "is_valid") },
		"valid is null":               func(a m) { a["is_valid"] = nil },
		"valid is a string":           func(a m) { a["is_valid"] = "true" },
		"valid is a number":           func(a m) { a["is_valid"] = 1 },
		"valid with a reason":         func(a m) { a["reason"] = "tcb out of date" },
		"no details":                  func(a m) { delete(a, "details") },
		"details are null":            func(a m) { a["details"] = nil },
		"details are a list":          func(a m) { a["details"] = []any{} },
		"verdicts at the top only":    func(a m) { maps.Copy(a, a["details"].(m)); a["details"] = m{} },
		"valid in details only":       func(a m) { delete(a, "is_valid"); a["details"].(m)["is_valid"] = true },
		"no app info":                 details(func(d m) { delete(d, "app_info") }),
		"app info is null":            details(func(d m) { d["app_info"] = nil }),
		"report data of others":       details(func(d m) { d["report_data"] = strings.Repeat("00", 64) }),
		"report data is short":        details(func(d m) { d["report_data"] = "010203" }),
		"report data is empty":        details(func(d m) { d["report_data"] = "" }),
		"report data is missing":      details(func(d m) { delete(d, "report_data") }),
		"report data in upper case":   details(func(d m) { d["report_data"] = "0X" + d["report_data"].(string) }),
		"no tcb status":               details(func(d m) { delete(d, "tcb_status") }),
		"tcb status is empty":         details(func(d m) { d["tcb_status"] = "" }),
		"tcb status is null":          details(func(d m) { d["tcb_status"] = nil }),
		"no advisories":               details(func(d m) { delete(d, "advisory_ids") }),
		"advisories are null":         details(func(d m) { d["advisory_ids"] = nil }),
		"advisories are text":         details(func(d m) { d["advisory_ids"] = "none" }),
		"too many advisories":         details(func(d m) { d["advisory_ids"] = make([]string, 300) }),
		"a development image":         details(func(d m) { d["os_image_is_dev"] = true }),
		"a folded name":               details(func(d m) { d["Quote_Verified"] = true }),
		"key provider is no hex":      info(func(i m) { i["key_provider_info"] = providerText }),
		"key provider is no JSON":     info(func(i m) { i["key_provider_info"] = "00" }),
		"key provider without id":     info(func(i m) { i["key_provider_info"] = hex.EncodeToString([]byte(`{"name":"kms","id":""}`)) }),
		"key provider with more":      info(func(i m) { i["key_provider_info"] = hex.EncodeToString([]byte(`{"name":"kms","id":"30","x":1}`)) }),
		"app id is short":             info(func(i m) { i["app_id"] = "0101" }),
		"app id with 0x":              info(func(i m) { i["app_id"] = "0x" + strings.Repeat("01", 19) }),
		"compose hash in upper case":  info(func(i m) { i["compose_hash"] = strings.Repeat("AB", 32) }),
		"app info with a second name": info(func(i m) { i["App_ID"] = i["app_id"] }),
	}
	for _, name := range []string{"quote_verified", "event_log_verified", "os_image_hash_verified"} {
		edits[name+" is false"] = details(func(d m) { d[name] = false })
		edits[name+" is missing"] = details(func(d m) { delete(d, name) })
		edits[name+" is null"] = details(func(d m) { d[name] = nil })
	}
	for _, name := range []string{"app_id", "compose_hash", "instance_id", "os_image_hash", "key_provider_info", "device_id", "mr_system", "mr_aggregated"} {
		edits[name+" is empty"] = info(func(i m) { i[name] = "" })
		edits[name+" is missing"] = info(func(i m) { delete(i, name) })
	}
	for name, edit := range edits {
		a := goodAnswer()
		edit(a)
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := verify(t, answering(string(text)), nil); codeOf(err) != policy.CodeVerifierInconsistent {
			t.Errorf("%s: %v, claims %+v", name, err, got)
		}
	}
	good, err := json.Marshal(goodAnswer())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty": "", "no JSON": "<html>", "null": "null", "a list": "[]", "two answers": string(good) + string(good),
		"repeated key": strings.Replace(string(good), `"is_valid":true`, `"is_valid":false,"is_valid":true`, 1),
		"cut off":      string(good[:len(good)/2]),
		"endless":      strings.Repeat(" ", maxAnswer+1),
		"deep":         strings.Repeat("[", 100),
		"no UTF-8":     strings.Replace(string(good), "UpToDate", "\xff", 1),
	} {
		if _, err := verify(t, answering(text), nil); codeOf(err) != policy.CodeVerifierInconsistent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATT27_NoAnswerIsUnavailable(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"bad request": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"failure":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"no content":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusTemporaryRedirect)
		},
		"hang": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then the end of the caller is seen
			<-r.Context().Done()
		},
		"hang up": func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		},
	} {
		_, err := verify(t, handler, func(c *Config) { c.Timeout = 200 * time.Millisecond })
		if refused, ok := errors.AsType[*refusal.Error](err); !ok || refused.Code != policy.CodeVerifierUnavailable || !refused.Retryable() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATT27_OnlyAddressesThatCannotBeImpersonated(t *testing.T) {
	for _, url := range []string{
		"", "http://verifier:8080", "http://localhost:8080", "http://10.0.0.1:8080", "http://0.0.0.0:1", "http://[fe80::1]:1", "unix:relative", "unix:",
		"ftp://127.0.0.1", "https://u:p@x", "https://x/verify", "http://127.0.0.1:1?x", "http://127.0.0.1.example:1",
	} {
		if _, err := New(Config{URL: url}); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
	for _, url := range []string{"http://127.0.0.1:8080", "http://[::1]:8080", "https://verifier.example", "unix:/run/verifier.sock", "http://127.0.0.1:8080/"} {
		if _, err := New(Config{URL: url}); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestAUnixSocketIsAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(goodAnswer())
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: answering(string(text)), ReadHeaderTimeout: time.Second}}
	server.Start()
	defer server.Close()
	c, err := New(Config{URL: "unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Verify(context.Background(), Evidence{}, reportData); err != nil {
		t.Error(err)
	}
}

func FuzzAnswer(f *testing.F) {
	text, err := json.Marshal(goodAnswer())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(`{"is_valid":true,"details":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := readAnswer([]byte(text), reportData)
		if err == nil && (claims.AppID == "" || claims.ComposeHash == "" || claims.InstanceID == "" || claims.OSImageHash == "" ||
			claims.KeyProviderName == "" || claims.KeyProviderID == "" || claims.TCB.Status == "") {
			t.Errorf("accepted %+v", claims)
		}
	})
}
