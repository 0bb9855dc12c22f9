package webdemo_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cadre.dev/demo/load/hosts"
	"cadre.dev/demo/webdemo"
)

const (
	browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	asJSON  = "application/json"
	curl    = "*/*"
)

func get(t *testing.T, w webdemo.Web, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	req.Header.Set("Accept", accept)
	w.Handler().ServeHTTP(answer, req)
	return answer
}

// look is get of an answer in JSON.
func look[T any](t *testing.T, w webdemo.Web, path string, status int) (into T) {
	t.Helper()
	answer := get(t, w, path, curl)
	if answer.Code != status || answer.Header().Get("Content-Type") != asJSON {
		t.Fatalf("%s: %d %s, want %d: %s", path, answer.Code, answer.Header().Get("Content-Type"), status, answer.Body)
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &into); err != nil {
		t.Fatalf("%s: %v: %s", path, err, answer.Body)
	}
	return into
}

func TestASlotShowsItsName(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		_, _ = out.Write([]byte(`{"slot":"worker-3","instance_id":"ab12","path":"` + req.URL.Path + `"}`))
	}))
	t.Cleanup(agent.Close)
	w := webdemo.Web{
		Self:     webdemo.Hello{Cluster: "starter", Group: "worker", Slot: "worker-3", Release: "2"},
		Instance: webdemo.Agent(agent.URL),
	}
	for _, path := range []string{"/hello", "/"} {
		if said := get(t, w, path, curl); said.Code != http.StatusOK || said.Body.String() != "worker-3 release 2\n" {
			t.Errorf("%s: %d %q", path, said.Code, said.Body)
		}
	}
	var me webdemo.Hello
	if said := get(t, w, "/hello", asJSON); json.Unmarshal(said.Body.Bytes(), &me) != nil ||
		me != (webdemo.Hello{Cluster: "starter", Group: "worker", Slot: "worker-3", Release: "2", Instance: "ab12"}) {
		t.Errorf("as JSON: %s", said.Body)
	}
	if said := get(t, w, "/hello", "application/json;q=0, text/plain"); said.Body.String() != "worker-3 release 2\n" {
		t.Errorf("JSON is refused, and the answer is %q", said.Body)
	}
	if said := get(t, w, "/healthz", curl); said.Code != http.StatusOK || said.Body.String() != "ok\n" {
		t.Errorf("/healthz: %d %q", said.Code, said.Body)
	}
	if said := get(t, w, "/other", curl); said.Code != http.StatusNotFound {
		t.Errorf("another path: %d", said.Code)
	}
}

// An agent that does not answer takes nothing from the answer but the instance.
func TestASlotAnswersWithoutItsAgent(t *testing.T) {
	w := webdemo.Web{Self: webdemo.Hello{Slot: "web-0"}, Instance: webdemo.Agent("http://" + refusing(t))}
	if said := get(t, w, "/hello", curl); said.Code != http.StatusOK || said.Body.String() != "web-0 release \n" {
		t.Errorf("%d %q", said.Code, said.Body)
	}
}

// The answer of a server without a route names the missing flag.
func TestARouteWithoutItsFlagIsMissing(t *testing.T) {
	for path, flag := range map[string]string{"/all": "-all=", "/call": "-call=", "/db": "-master="} {
		if said := get(t, webdemo.Web{}, path, curl); said.Code != http.StatusNotFound || !strings.Contains(said.Body.String(), flag) {
			t.Errorf("%s: %d %s", path, said.Code, said.Body)
		}
	}
}

func TestBrowsersGetThePage(t *testing.T) {
	said := get(t, webdemo.Web{Self: webdemo.Hello{Slot: "web-0"}}, "/", browser)
	if said.Code != http.StatusOK || said.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(said.Body.String(), "<!doctype html>") {
		t.Errorf("%d %v", said.Code, said.Header())
	}
	// Nothing in it comes from elsewhere.
	for _, outside := range []string{"http://", "https://", "@import", "src="} {
		text := strings.ReplaceAll(said.Body.String(), "http://www.w3.org/2000/svg", "")
		if strings.Contains(text, outside) {
			t.Errorf("the page has %q in it", outside)
		}
	}
}

// Each of the expected members answers, and none is queried more often than needed.
func TestAllReplicasAnswer(t *testing.T) {
	at := route(t, slot("webdemo-0", "1"), slot("webdemo-1", "2"))
	w := webdemo.Web{All: at, Members: []string{"webdemo-0", "webdemo-1"}}
	found := look[webdemo.Spread](t, w, "/all", http.StatusOK)
	if found.Route != at || found.Asked != 2 || len(found.Replicas) != 2 || len(found.Silent)+len(found.Errors) != 0 {
		t.Fatalf("%+v", found)
	}
	for i, want := range []string{"webdemo-0 1", "webdemo-1 2"} {
		if r := found.Replicas[i]; r.Slot+" "+r.Release != want || r.Answers != 1 || r.LatencyMS <= 0 {
			t.Errorf("replica %d is %+v", i, r)
		}
	}
}

// A missing member is queried a bounded number of times and named; failures are counted.
func TestASilentReplicaIsNamed(t *testing.T) {
	w := webdemo.Web{All: route(t, slot("webdemo-0", "1"), broken(http.StatusBadGateway)), Members: []string{"webdemo-0", "webdemo-1"}}
	found := look[webdemo.Spread](t, w, "/all", http.StatusOK)
	if !slices.Equal(found.Silent, []string{"webdemo-1"}) || found.Asked != 7 || found.Replicas[0].Answers != 4 {
		t.Errorf("%+v", found)
	}
	if len(found.Errors) != 1 || found.Errors[0] != (webdemo.Failure{Error: "502 Bad Gateway", Times: 3}) {
		t.Errorf("errors are %+v", found.Errors)
	}
}

// The number of members behind another group's route is unknown: all answering members are found,
// in the order of their slots.
func TestOtherGroupsAreFoundWithoutKnowingThem(t *testing.T) {
	var behind []http.Handler
	for _, name := range []string{"worker-10", "worker-2", "worker-0", "worker-1"} {
		behind = append(behind, slot(name, "7"))
	}
	w := webdemo.Web{Self: webdemo.Hello{Slot: "api-0", Release: "1"}, Call: "http://" + route(t, behind...) + "/hello"}
	found := look[webdemo.Spread](t, w, "/call", http.StatusOK)
	var names []string
	for _, r := range found.Replicas {
		names = append(names, r.Slot)
	}
	if !slices.Equal(names, []string{"worker-0", "worker-1", "worker-2", "worker-10"}) || found.Asked > 16 {
		t.Errorf("%+v", found)
	}
	want := "api-0 release 1\n  worker-0 release 7\n  worker-1 release 7\n  worker-2 release 7\n  worker-10 release 7\n"
	if said := get(t, w, "/", curl); said.Body.String() != want {
		t.Errorf("as text: %q", said.Body)
	}
}

// A route without an answering member is a 503 with the reason; the slot itself still answers.
func TestARouteThatDoesNotAnswer(t *testing.T) {
	at := refusing(t)
	w := webdemo.Web{Self: webdemo.Hello{Slot: "api-0", Release: "1"}, All: at, Call: "http://" + at + "/hello"}
	for _, path := range []string{"/all", "/call"} {
		found := look[webdemo.Spread](t, w, path, http.StatusServiceUnavailable)
		if len(found.Replicas) != 0 || found.Asked != 6 || len(found.Errors) != 1 || !strings.Contains(found.Errors[0].Error, "connection refused") {
			t.Errorf("%s: %+v", path, found)
		}
	}
	if said := get(t, w, "/", curl); said.Code != http.StatusOK || !strings.HasPrefix(said.Body.String(), "api-0 release 1\n  http://"+at+"/hello does not answer: ") {
		t.Errorf("%d %q", said.Code, said.Body)
	}
}

// A route's name that appears later is found without a restart.
func TestRoutesAppearLater(t *testing.T) {
	_, port, _ := strings.Cut(route(t, slot("webdemo-0", "1")), ":")
	names := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(names, []byte("127.0.0.2 other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := webdemo.Web{All: "localhost.webdemo:" + port, Members: []string{"webdemo-0"}, Lookup: hosts.File(names)}
	if err := os.WriteFile(names, []byte("127.0.0.1 localhost.webdemo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := look[webdemo.Spread](t, w, "/all", http.StatusOK); found.Asked != 1 {
		t.Errorf("%+v", found)
	}
}
