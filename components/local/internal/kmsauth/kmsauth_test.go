package kmsauth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cadre.dev/attest/attestsim"
)

func TestTheWebhookDecides(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		want   string // part of the boot error; "" is permission
	}{
		"permission":          {200, `{"isAllowed":true,"reason":"","gatewayAppId":""}`, ""},
		"refusal":             {200, `{"isAllowed":false,"reason":"compose hash not allowed","gatewayAppId":""}`, `App not allowed: Boot denied: compose hash not allowed`},
		"no reason":           {200, `{"isAllowed":true,"gatewayAppId":""}`, "missing field `reason`"},
		"no gateway":          {200, `{"isAllowed":true,"reason":""}`, "missing field `gatewayAppId`"},
		"no decision":         {200, `{"reason":"","gatewayAppId":""}`, "missing field `isAllowed`"},
		"null decision":       {200, `{"isAllowed":null,"reason":"","gatewayAppId":""}`, "missing field `isAllowed`"},
		"text as a decision":  {200, `{"isAllowed":"true","reason":"","gatewayAppId":""}`, "failed to decode response"},
		"an error":            {503, `no coordinator answers`, "returned 503 Service Unavailable: no coordinator answers"},
		"permission as error": {500, `{"isAllowed":true,"reason":"","gatewayAppId":""}`, "returned 500"},
		"no answer":           {200, ``, "failed to decode response"},
	} {
		t.Run(name, func(t *testing.T) {
			var got attestsim.KeyRequest
			var path string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path = r.Method + " " + r.URL.Path
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
			}))
			defer srv.Close()
			sent := attestsim.KeyRequest{AppID: "ab", ComposeHash: "cd", AdvisoryIDs: []string{}}
			err := Ask(t.Context(), srv.URL+"/", sent)
			if path != "POST /bootAuth/app" || got.AppID != "ab" || got.ComposeHash != "cd" {
				t.Errorf("the webhook got %s with %+v", path, got)
			}
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "Failed to request app keys: ")):
				t.Errorf("Ask = %v, want a boot error with %q", err, c.want)
			}
		})
	}
}

func TestAWebhookThatDoesNotAnswerRefuses(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	if err := Ask(t.Context(), srv.URL, attestsim.KeyRequest{}); err == nil || !strings.Contains(err.Error(), "error sending request for url ("+srv.URL+"/bootAuth/app)") {
		t.Errorf("without a listener: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Ask(ctx, srv.URL, attestsim.KeyRequest{}); err == nil || !strings.Contains(err.Error(), "operation timed out") {
		t.Errorf("after the guest's patience: %v", err)
	}
}

func TestOnlyAURLOfAWebhookIsTaken(t *testing.T) {
	for url, good := range map[string]bool{
		"": true, "http://127.0.0.1:8000": true, "https://auth.example/x": true,
		"127.0.0.1:8000": false, "ftp://x": false, "http://": false, "http://x/?a=b": false, "unix:///x": false,
	} {
		if err := CheckURL(url); (err == nil) != good {
			t.Errorf("CheckURL(%q) = %v", url, err)
		}
	}
}
