package consulproxy_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/consulproxy"
	"cadre.dev/store/storetest"
)

const endpointsFile = "testdata/endpoints.txt"

// unregistered are paths that Consul serves without a normal registration.
var unregistered = []string{"/", "/ui/", "/debug/pprof/", "/v1/", "/v1/unknown", "/api/resource/"}

// sample returns a request path for an endpoint, with a name where it needs one.
func sample(m *member, endpoint string) string {
	switch endpoint {
	case "/v1/kv/":
		return endpoint + "service/pg/x"
	case "/v1/session/renew/", "/v1/session/destroy/", "/v1/session/info/":
		return endpoint + m.session()
	case "/v1/config/":
		return endpoint + "service-defaults"
	case "/v1/health/state/":
		return endpoint + "any"
	case "/v1/health/service/", "/v1/health/checks/", "/v1/catalog/service/":
		return endpoint + "pg"
	case "/":
		return endpoint
	}
	if strings.HasSuffix(endpoint, "/") {
		return endpoint + "pg-1"
	}
	return endpoint
}

var bodies = map[string]string{
	"PUT /v1/session/create": `{"TTL":"60s"}`,
	"PUT /v1/txn":            `[{"KV":{"Verb":"get-tree","Key":"service/pg/"}}]`,
}

// TestDOR01_EveryEndpointOfConsul requests every endpoint of this version of Consul, with each
// method, as a member with its token. The allowed endpoints are in testdata/endpoints.txt. A new
// version of Consul is judged there before it is used (UPDATE_GOLDEN=1 writes the file).
func TestDOR01_EveryEndpointOfConsul(t *testing.T) {
	golden, err := os.ReadFile(endpointsFile)
	update := os.Getenv("UPDATE_GOLDEN") != ""
	if err != nil && !update {
		t.Fatal(err)
	}
	version, endpoints := registered(t)
	head, rows, _ := strings.Cut(string(golden), "\n")
	if endpoints == nil {
		// Without Consul's source the version shows that the list is the right one.
		for row := range strings.Lines(rows) {
			endpoint, _, _ := strings.Cut(row, " ")
			endpoints = append(endpoints, endpoint)
		}
	}
	w := newWorld(t, consulproxy.Limits{Rate: 1e6, Burst: 1e6, Sessions: 1e6})
	m := w.member("pg", "pg-1")
	if got := m.ask(http.MethodPut, "/v1/kv/service/pg/x", "y"); got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Consul %s\n", version)
	for _, endpoint := range endpoints {
		through := []string{"-"}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			target := sample(m, endpoint)
			if got := m.ask(method, target, bodies[method+" "+endpoint]); method == "HEAD" && got.status != http.StatusForbidden || method != "HEAD" && got.code() == "" {
				through = append(through, fmt.Sprintf("%s=%d", method, got.status))
			} else if method != "HEAD" && got.code() != consulproxy.CodeForbidden {
				t.Errorf("%s %s: %+v", method, target, got)
			}
		}
		fmt.Fprintf(&out, "%s %s\n", endpoint, strings.TrimSpace(strings.TrimPrefix(strings.Join(through, " "), "- ")))
	}
	if update {
		if err := os.WriteFile(endpointsFile, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if head != "Consul "+version {
		t.Fatalf("this is Consul %s, and %s is about %q: review the new endpoints, then UPDATE_GOLDEN=1", version, endpointsFile, head)
	}
	if out.String() != string(golden) {
		t.Errorf("the allowed endpoints differ from %s:\n%s", endpointsFile, diff(string(golden), out.String()))
	}
}

// registered returns the endpoints that Consul's source registers; nil without the source.
func registered(t *testing.T) (version string, out []string) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), storetest.ConsulBinary(t), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`Consul v(\S+)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no version in %q", text)
	}
	version = string(m[1])
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Logf("no module cache: %v", err)
		return version, nil
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(cache)), "github.com", "hashicorp", "consul@v"+version, "agent", "http_register.go"))
	if err != nil {
		t.Logf("no source of Consul: %v", err)
		return version, nil
	}
	for _, m := range regexp.MustCompile(`registerEndpoint\("(/[^"]*)"`).FindAllSubmatch(source, -1) {
		out = append(out, string(m[1]))
	}
	if len(out) < 100 {
		t.Fatalf("%d endpoints in Consul's source; its form has changed", len(out))
	}
	return version, append(out, unregistered...)
}

func diff(want, got string) string {
	var b strings.Builder
	have := map[string]bool{}
	for line := range strings.Lines(want) {
		have[line] = true
	}
	for line := range strings.Lines(got) {
		if !have[line] {
			b.WriteString("+ " + line)
		}
		delete(have, line)
	}
	for line := range have {
		b.WriteString("- " + line)
	}
	return b.String()
}
