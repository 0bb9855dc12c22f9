package api

import (
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	curlLine  = regexp.MustCompile(`(?m)^curl .*127\.0\.0\.1:7070.*$`)
	curlPath  = regexp.MustCompile(`http://127\.0\.0\.1:7070([^\s']*)`)
	curlBody  = regexp.MustCompile(`-d "(.*)"$`)
	curlToken = regexp.MustCompile(`\$token|\$CADRE_HOOK_TOKEN`)
)

// TestTheExamplesOfTheHooksPage sends the request of each curl line of docs/guides/lifecycle-hooks.md. The
// page has hooks of other names; here the open hook is "flush".
func TestTheExamplesOfTheHooksPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/guides/lifecycle-hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := curlLine.FindAllString(string(page), -1)
	if len(lines) < 5 {
		t.Fatalf("the page has %d examples for the agent; its form has changed", len(lines))
	}
	hook := regexp.MustCompile(`/v1/lifecycle/[a-z-]+/`)
	for _, line := range lines {
		method, body, want := "GET", "", `"state"`
		if strings.Contains(line, "-X POST") {
			method, want = "POST", `{"applied":true}`
		}
		if found := curlBody.FindStringSubmatch(line); found != nil {
			body = curlToken.ReplaceAllString(strings.ReplaceAll(found[1], `\"`, `"`), "t0k")
		}
		path := hook.ReplaceAllString(curlPath.FindStringSubmatch(line)[1], "/v1/lifecycle/flush/")
		path = strings.Replace(path, "wait=30s", "wait=1ms", 1) // nothing changes here
		s, _ := newTestServer(true)
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequest(method, "http://127.0.0.1:7070"+path, strings.NewReader(body)))
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s\nis answered with %d %s", line, rec.Code, rec.Body)
		}
	}
}
