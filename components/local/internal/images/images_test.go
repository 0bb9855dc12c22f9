package images

import (
	"strings"
	"testing"
)

func TestRepository(t *testing.T) {
	for in, want := range map[string]string{
		"nginx":                              "nginx",
		"nginx:1.27":                         "nginx",
		"docker.io/library/nginx":            "nginx",
		"cadre/agent@sha256:abc":             "cadre/agent",
		"cadre/agent:1.2@sha256:abc":         "cadre/agent",
		"registry:5000/a/b":                  "registry:5000/a/b",
		"registry:5000/a/b:7@sha256:0123456": "registry:5000/a/b",
	} {
		if got := Repository(in); got != want {
			t.Errorf("Repository(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"unknown field": {`{"images":{"a":{"pth":["/x"]}}}`, "unknown field"},
		"relative path": {`{"images":{"a":{"path":["bin"]}}}`, "not absolute"},
		"tagged key":    {`{"images":{"a:1":{}}}`, "without tag"},
	} {
		if _, err := Parse([]byte(tc.in)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: err = %v, want %q", name, err, tc.want)
		}
	}
}

func TestLookupNamesWhatIsMissing(t *testing.T) {
	m, err := Parse([]byte(`{"images":{"cadre/agent":{"path":["/opt/bin"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if img, err := m.Lookup("cadre/agent:9@sha256:00"); err != nil || img.Path[0] != "/opt/bin" {
		t.Errorf("Lookup = %v, %v", img, err)
	}
	_, err = m.Lookup("ghcr.io/x/y:1")
	if err == nil || !strings.Contains(err.Error(), `"ghcr.io/x/y"`) || !strings.Contains(err.Error(), "cadre/agent") {
		t.Errorf("Lookup of an unknown image: %v", err)
	}
}
