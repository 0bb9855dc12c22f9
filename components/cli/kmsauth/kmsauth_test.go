package kmsauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/raced/synctest"
)

func hex(c string, n int) string { return strings.Repeat(c, n) }

var (
	coordinators, gateway, members = hex("a", 40), hex("b", 40), hex("c", 40)
	image, ours, theirs, measured  = hex("1", 64), hex("2", 64), hex("3", 64), hex("4", 64)
	device, instance               = hex("5", 64), hex("6", 40)
)

const static = `{
  "osImages": ["0x1111111111111111111111111111111111111111111111111111111111111111"],
  "gatewayAppId": "0xbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
  "kms": {"mrAggregated": ["4444444444444444444444444444444444444444444444444444444444444444"], "allowAnyDevice": true},
  "apps": {
    "0xAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": {"composeHashes": ["0x2222222222222222222222222222222222222222222222222222222222222222"]},
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb": {"composeHashes": ["2222222222222222222222222222222222222222222222222222222222222222"],
      "devices": ["5555555555555555555555555555555555555555555555555555555555555555"], "allowAnyDevice": false}
  }
}`

// webhook serves the webhook as `cadre kms-auth` does.
func webhook(t *testing.T, text string, ask func(context.Context, client.Boot) (client.BootDecision, error)) (url, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kms-auth.json")
	if text != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := &Server{Static: path, Ask: ask, Log: slog.New(slog.DiscardHandler)}
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String(), path
}

func post(t *testing.T, url string, body []byte) (int, Answer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	var a Answer
	if err := errors.Join(json.Unmarshal(text, &fields), json.Unmarshal(text, &a)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if len(fields) != 3 { // the key service wants all three
		t.Errorf("answer %s", text)
	}
	return resp.StatusCode, a
}

// request is the body of a key service of dstack 0.5.9 or later.
func request(change func(map[string]any)) []byte {
	fields := map[string]any{
		"teeVariant": "dstack-tdx", "attestationMode": "dstack-tdx", "mrAggregated": measured, "osImageHash": image, "mrSystem": hex("7", 64), "appId": members,
		"composeHash": ours, "instanceId": instance, "deviceId": device, "keyProviderInfo": "", "tcbStatus": "UpToDate", "advisoryIds": []string{},
	}
	change(fields)
	text, _ := json.Marshal(fields)
	return text
}

// TestAKeyServiceIsAnsweredByTheFileAndTheCoordinators: each row is one POST of a key service.
func TestAKeyServiceIsAnsweredByTheFileAndTheCoordinators(t *testing.T) {
	asked := func(_ context.Context, b client.Boot) (client.BootDecision, error) {
		switch b.ComposeHash {
		case ours:
			return client.BootDecision{Allowed: b.AppID == members && b.InstanceID == instance && b.OSImageHash == image && b.DeviceID == device}, nil
		case theirs:
			return client.BootDecision{Code: "REVISION_NOT_ALLOWED", Message: "revision x is revoked:\nleaked"}, nil
		}
		return client.BootDecision{}, &client.Error{Kind: client.Denied, Message: "no right"}
	}
	url, _ := webhook(t, static, asked)
	set := func(name string, value any) func(map[string]any) {
		return func(f map[string]any) { f[name] = value }
	}
	app := func(id, hash, device string) func(map[string]any) {
		return func(f map[string]any) { f["appId"], f["composeHash"], f["deviceId"] = id, hash, device }
	}
	for name, c := range map[string]struct {
		path   string
		body   []byte
		status int
		says   string // of the reason; "": allowed
	}{
		"a member": {"app", request(func(map[string]any) {}), 200, ""},
		"a member of an older key service": {"app", request(func(f map[string]any) {
			f["eventLog"], f["mrtd"] = hex("x", 300_000), hex("8", 96)
			delete(f, "teeVariant")
		}), 200, ""},
		"a revoked member":                   {"app", request(set("composeHash", theirs)), 200, "REVISION_NOT_ALLOWED: revision x is revoked: leaked"},
		"coordinators that refuse to answer": {"app", request(set("composeHash", measured)), 200, "did not decide: : no right"},
		"a coordinator":                      {"app", request(app(coordinators, ours, device)), 200, ""},
		"a coordinator, with 0x":             {"app", request(app("0x"+strings.ToUpper(coordinators), "0x"+ours, device)), 200, ""},
		"a coordinator of another file":      {"app", request(app(coordinators, theirs, device)), 200, "composeHashes"},
		"the gateway":                        {"app", request(app(gateway, ours, device)), 200, ""},
		"the gateway on another machine":     {"app", request(app(gateway, ours, theirs)), 200, "devices"},
		"another image":                      {"app", request(set("osImageHash", ours)), 200, "osImages"},
		"an old machine":                     {"app", request(set("tcbStatus", "OutOfDate")), 200, "allowedTcbStatuses"},
		"no TCB status":                      {"app", request(func(f map[string]any) { delete(f, "tcbStatus") }), 200, "allowedTcbStatuses"},
		"an advisory":                        {"app", request(set("advisoryIds", []string{"INTEL-SA-1"})), 200, "allowedAdvisoryIds"},
		"a key service":                      {"kms", request(func(map[string]any) {}), 200, ""},
		"another key service":                {"kms", request(set("mrAggregated", ours)), 200, "kms.mrAggregated"},
		"a key service of another image":     {"kms", request(set("osImageHash", ours)), 200, "osImages"},
		"no JSON":                            {"app", []byte("{"), 400, "invalid authorization request"},
		"two apps":                           {"app", []byte(`{"appId":"` + members + `","appId":"` + gateway + `"}`), 400, "invalid authorization request"},
		"an app in other letters":            {"app", []byte(`{"AppId":"` + members + `"}`), 400, "invalid authorization request"},
		"an id that is none":                 {"app", request(set("appId", "../x")), 400, "appId"},
		"a long id":                          {"app", request(set("instanceId", hex("6", 42))), 400, "instanceId"},
		"too much":                           {"app", request(set("eventLog", hex("x", maxBody))), 400, "too large"},
		"nothing":                            {"app", []byte("{}"), 200, "TCB status"},
	} {
		status, a := post(t, url+"/bootAuth/"+c.path, c.body)
		if status != c.status || a.IsAllowed != (c.says == "") || !strings.Contains(a.Reason, c.says) || strings.ContainsRune(a.Reason, '\n') {
			t.Errorf("%s: %d %+v", name, status, a)
		}
		if status == http.StatusOK && !strings.HasSuffix(a.GatewayAppID, gateway) {
			t.Errorf("%s: gateway %q", name, a.GatewayAppID)
		}
	}
}

// TestAFailedQuestionIsRepeated: a coordinator that is away for seconds costs no boot, and coordinators
// that are away for longer deny within askTime.
func TestAFailedQuestionIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		fail, want int // questions; fail 0: all
		err        error
		hangs      bool
		takes      time.Duration
	}{
		"one failure":      {fail: 1, want: 2, err: errors.New("reset"), takes: askPause},
		"no right":         {want: 1, err: &client.Error{Kind: client.Denied, Message: "no right"}},
		"one hangs":        {fail: 1, want: 2, hangs: true, takes: oneAsk + askPause},
		"all are away":     {want: 15, err: &client.Error{Kind: client.Unavailable, Message: "none"}, takes: askTime - askPause},
		"all hang forever": {want: 3, hangs: true, takes: askTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked, began := 0, time.Now()
			s := &Server{Log: slog.New(slog.DiscardHandler), Ask: func(ctx context.Context, _ client.Boot) (client.BootDecision, error) {
				switch asked++; {
				case c.fail > 0 && asked > c.fail:
					return client.BootDecision{Allowed: true}, nil
				case c.hangs:
					<-ctx.Done()
					return client.BootDecision{}, ctx.Err()
				}
				return client.BootDecision{}, c.err
			}}
			d, err := s.ask(t.Context(), client.Boot{})
			if d.Allowed != (err == nil) || d.Allowed != (c.fail > 0) || asked != c.want || time.Since(began) != c.takes {
				t.Errorf("%s: %+v, %v after %d questions in %s", name, d, err, asked, time.Since(began))
			}
		})
	}
}

// TestMembersThatWaitKeepNoCoordinatorFromItsKeys: after a power cut all members of a host ask before the
// coordinators are up.
func TestMembersThatWaitKeepNoCoordinatorFromItsKeys(t *testing.T) {
	asked, enough := make(chan struct{}, 2*maxAsks), make(chan struct{})
	url, _ := webhook(t, static, func(context.Context, client.Boot) (client.BootDecision, error) {
		asked <- struct{}{}
		<-enough
		return client.BootDecision{Allowed: true}, nil
	})
	answers := make(chan Answer, maxAsks)
	for range maxAsks {
		go func() {
			_, a := post(t, url+"/bootAuth/app", request(func(map[string]any) {}))
			answers <- a
		}()
	}
	for range maxAsks {
		<-asked
	}
	if _, a := post(t, url+"/bootAuth/app", request(func(f map[string]any) { f["appId"] = coordinators })); !a.IsAllowed {
		t.Errorf("a coordinator: %+v", a)
	}
	close(enough)
	for range maxAsks {
		if a := <-answers; !a.IsAllowed {
			t.Errorf("a member: %+v", a)
		}
	}
}

// TestTheFileIsReadAtEachRequest: each new entry counts at once, and a File that cannot be read
// denies everything.
func TestTheFileIsReadAtEachRequest(t *testing.T) {
	never := func(context.Context, client.Boot) (client.BootDecision, error) {
		t.Error("the coordinators were asked about their own app")
		return client.BootDecision{}, nil
	}
	url, path := webhook(t, "", never)
	own := request(func(f map[string]any) { f["appId"] = coordinators })
	try := func(when, says string) {
		t.Helper()
		if _, a := post(t, url+"/bootAuth/app", own); a.IsAllowed != (says == "") || !strings.Contains(a.Reason, says) {
			t.Errorf("%s: %+v", when, a)
		}
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try("no file", "no such file")
	must(Init(path, coordinators, []string{theirs}, []string{image}, []string{measured}))
	try("another hash", "composeHashes")
	must(Allow(path, coordinators, ours))
	try("an allowed hash", "")
	must(AllowOnly(path, coordinators, theirs))
	try("the hash of before", "composeHashes")
	if changed, err := AllowOnly(path, coordinators, theirs); changed || err != nil {
		t.Errorf("the same again: %v, %v", changed, err)
	}
	must(Init(path, coordinators, []string{ours}, nil, nil))
	try("after another init", "")
	for text, says := range map[string]string{
		`{"osImages":["x"],"kms":{"mrAggregated":["0x12"]},"apps":{"a":{"composeHashes":[]}}}`: `osImages[0]: "x" is not 64 hex digits; kms.mrAggregated[0]`,
		`{"osImages":[],"kms":{},"apps":{},"allow":true}`:                                      "allow",
		`{"osImages":[],"osImages":[]}`:                                                        "osImages",
		strings.Repeat(" ", maxFile+1):                                                         "more than",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		try(says, says)
	}
}

// TestTheInfoPageHasTheFieldsOfAKeyService: it decodes five of them, and fails without one.
func TestTheInfoPageHasTheFieldsOfAKeyService(t *testing.T) {
	url, path := webhook(t, static, nil)
	get := func() (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, out
	}
	status, info := get()
	for _, field := range []string{"status", "kmsContractAddr", "gatewayAppId", "chainId", "appImplementation"} {
		if _, ok := info[field]; !ok || status != http.StatusOK {
			t.Errorf("%d, no %s in %v", status, field, info)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if status, info := get(); status != http.StatusInternalServerError || info["status"] != "error" {
		t.Errorf("without a file: %d %v", status, info)
	}
}
