package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzRequests: for any request of a workload, the answer is one of the API's own, and each
// rejection has a code. The completion of a hook also comes in here.
func FuzzRequests(f *testing.F) {
	f.Add("POST", "/v1/lifecycle/flush/complete", `{"result":"CONTINUE","token":"t0k"}`)
	f.Add("POST", "/v1/lifecycle/flush/heartbeat", `{"token":"t0k"}`)
	f.Add("GET", "/v1/lifecycle?wait=0s&index=1", "")
	f.Add("GET", "/v1/instance", "")
	f.Add("POST", "/v1/lifecycle/..%2f/complete", `{"result":"HOLD"}{}`)
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if strings.Contains(target, "wait=") && !strings.Contains(target, "wait=0s") {
			return // a long poll waits as requested
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:7070/"+strings.TrimPrefix(target, "/"), strings.NewReader(body))
		if err != nil {
			return
		}
		s, life := newTestServer(true)
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, req)
		if rec.Code >= 500 {
			t.Fatalf("%s %q answers %d %s", method, target, rec.Code, rec.Body)
		}
		var refusal errorAnswer
		if rec.Code >= 400 && method != http.MethodHead && (json.Unmarshal(rec.Body.Bytes(), &refusal) != nil || refusal.Code == "") {
			t.Fatalf("%s %q is refused with %d %q, without a code", method, target, rec.Code, rec.Body)
		}
		if len(life.did) > 1 {
			t.Fatalf("one request did %v", life.did)
		}
	})
}
