package tofu

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cadre.dev/client/format"
	"cadre.dev/demo/internal/rig"
)

func TestOnlyFoldersWithTerraformAreStands(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "clusters/light"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "want the name of a folder", "../x": "want the name of a folder", "a;b": "want the name of a folder", "light": "clusters/light/main.tf"} {
		if _, err := New(root, name, t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("cluster %q: %v", name, err)
		}
	}
}

// A shell that reads the env file knows the cluster, under any name of the checkout.
func TestTheEnvFileIsForAShell(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a $HOME `of` mine")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	s := &Stand{Rig: rig.At(dir, dir, nil), Name: "starter", Program: "/opt/tofu"}
	if err := s.writeSettings(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `. "$1" && printf '%s\n' "$CADRE_CONTEXT" "$TF_CLI_ARGS_output" "$PATH" "$CADRE_LOCAL_STATE"`, "sh", filepath.Join(dir, "env"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	if lines[0] != s.ContextFile() || lines[1] != "-state="+format.Word(s.StateFile()) || !strings.HasPrefix(lines[2], filepath.Join(dir, "bin")+":/opt:") || lines[3] != filepath.Join(dir, "cloud") {
		t.Errorf("the shell has\n%s", out)
	}
}

// One Ctrl-C in a terminal reaches Terraform once: by Cancel, and not by its group as well.
func TestTerraformIsInNoGroupOfATerminal(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "tofu")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nread -r _ _ _ _ group _ < /proc/self/stat\necho \"$group\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &Stand{Rig: rig.At(dir, dir, nil), Name: "starter", Program: program}
	if err := os.MkdirAll(s.Dir(), 0o750); err != nil {
		t.Fatal(err)
	}
	cmd := s.Command(t.Context(), "plan")
	group, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(string(group)), strconv.Itoa(cmd.Process.Pid); got != want {
		t.Errorf("it runs in group %s, want its own, %s", got, want)
	}
}

func TestVariablesNameImagesByDigest(t *testing.T) {
	s := &Stand{Rig: rig.At("/checkout", t.TempDir(), nil), Vars: map[string]any{"release": "2", "deletion_protection": true}}
	if err := s.writeVars([]image{{Name: "webdemo", Digest: "sha256:ab"}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.VarFile())
	if err != nil {
		t.Fatal(err)
	}
	var vars struct {
		Images     map[string]string
		Release    string
		Cloud      string
		Protection bool `json:"deletion_protection"`
	}
	if err := json.Unmarshal(text, &vars); err != nil {
		t.Fatal(err)
	}
	if vars.Images["webdemo"] != Prefix+"/webdemo@sha256:ab" || vars.Release != "2" || vars.Cloud != s.CloudFile() || !vars.Protection {
		t.Errorf("variables: %s", text)
	}
}
