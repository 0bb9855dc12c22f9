package localcloud

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// file writes a file and the folders above it.
func file(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkout is a small checkout with one existing program and one missing one.
func checkout(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file(t, filepath.Join(root, "go.work"), "go 1.26.0\n")
	file(t, filepath.Join(root, "compose/programs.json"), `{
		"cadre/agent": {"path": ["bin", "opt/*/bin"], "user": "root", "entrypoint": ["cadre-agent"], "programs": ["bin/cadre-agent"]},
		"cadre/etcd": {"programs": [".tools/bin/etcd"]}}`)
	file(t, filepath.Join(root, "bin/cadre-agent"), "one")
	file(t, filepath.Join(root, "opt/2/bin/x"), "")
	return root
}

func TestProgramsOfACheckout(t *testing.T) {
	root := checkout(t)
	for _, at := range []string{root, filepath.Join(root, "bin"), filepath.Join(root, "bin/cadre-agent")} {
		if got := Checkout("/", at); got != root {
			t.Errorf("Checkout(%s) = %q", at, got)
		}
	}
	if got := Checkout("/", filepath.Join(root, "absent")); got != "" {
		t.Errorf("Checkout of what is not there = %q", got)
	}
	p, err := ReadPrograms(root)
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.Reference("cadre/agent")
	if err != nil || !strings.HasPrefix(first, "cadre/agent@sha256:") {
		t.Fatalf("Reference = %q, %v", first, err)
	}
	if _, err := p.Reference("cadre/etcd"); err == nil || !strings.Contains(err.Error(), "make tools build") {
		t.Errorf("a program that is not there: %v", err)
	}
	file(t, filepath.Join(root, "bin/cadre-agent"), "two")
	if second, err := p.Reference("cadre/agent"); err != nil || second == first {
		t.Errorf("a program that was built anew is %q, %v", second, err)
	}
	out := filepath.Join(t.TempDir(), "map.json")
	if err := p.Write(out); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(out)
	if text := string(raw); err != nil || !strings.Contains(text, `"`+root+`/opt/2/bin"`) || strings.Contains(text, "etcd") || strings.Contains(text, "programs") {
		t.Errorf("image map: %s, %v", text, err)
	}
	file(t, filepath.Join(root, "compose/programs.json"), `{"cadre/agent": {"pth": []}}`)
	if _, err := ReadPrograms(root); err == nil || !strings.Contains(err.Error(), "pth") {
		t.Errorf("an unknown field: %v", err)
	}
}

// TestCommandsOfEveryClusterAreFilledIn, for this repository with all images present.
func TestCommandsOfEveryClusterAreFilledIn(t *testing.T) {
	root := Checkout(".")
	if root == "" {
		t.Fatal("this is no checkout")
	}
	names := Clusters(root)
	if !slices.Contains(names, "clusters/postgres") {
		t.Fatalf("clusters: %v", names)
	}
	const fixture = "clusters/light" // made by tests, and never offered
	if slices.Contains(names, fixture) {
		t.Errorf("clusters: %v, without a README for %s", names, fixture)
	}
	t.Setenv("XDG_CONFIG_HOME", "/config")
	t.Setenv("CADRE_CONTEXT", "")
	facts := Facts{Program: "bin/cadre", CloudFile: "/cloud.json", Image: func(v string) (string, error) { return "ref-of-" + v, nil }}
	for _, name := range append(names, fixture) {
		c, err := ReadCluster(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		lines, problems := c.Commands(facts)
		text := strings.Join(lines, "\n")
		for _, p := range problems {
			// A machine without the database's packages cannot name their folder.
			if !strings.Contains(p.Error(), "postgres_") {
				t.Errorf("%s: %v", name, p)
			}
		}
		if c.Terraform {
			if !strings.Contains(text, "make cluster NAME=") || !strings.Contains(text, "cloud of its own") {
				t.Errorf("%s: %q", name, text)
			}
			continue
		}
		for _, want := range []string{"bin/cadre cluster create", "--var coordinator_image=ref-of-coordinator_image", "bin/cadre group apply", "--var context=/config/cadre/", "--var cloud=/cloud.json"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
	missing := Facts{Program: "cadre", CloudFile: "c", Image: func(string) (string, error) { return "", errors.New("not built") }}
	c, err := ReadCluster(filepath.Join(root, "clusters/light"))
	if err != nil {
		t.Fatal(err)
	}
	if lines, problems := c.Commands(missing); len(problems) < 3 || !strings.Contains(problems[0].Error(), "coordinator_image: not built") || !strings.Contains(lines[0], "coordinator_image=...") {
		t.Errorf("without images: %q, %v", lines, problems)
	}
	if _, err := ReadCluster(filepath.Join(root, "clusters/nothing")); err == nil || !strings.Contains(err.Error(), "nothing does not exist") || !strings.Contains(err.Error(), "postgres") {
		t.Errorf("a folder that is no cluster: %v", err)
	}
}
