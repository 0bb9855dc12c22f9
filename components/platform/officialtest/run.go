// Package officialtest runs programs that call one official client step by step, and counts the steps.
// scripts/test-clients.sh installs the clients and names the folder in CADRE_TEST_CLIENTS.
//
// A program writes one line of JSON for each step to its standard output:
//
//	{"step": "info", "ok": true}
//	{"step": "emit an event", "ok": false, "unserved": true, "error": "..."}
//
// unserved is a step whose call is not served: it is ok when the client shows the refusal.
package officialtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Installed is the folder of the clients. Without one t is skipped: there is nothing to run.
func Installed(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("CADRE_TEST_CLIENTS")
	if folder == "" {
		t.Skip("runs by make test-clients, which installs the clients")
	}
	return folder
}

// Run runs a program of testdata/clients in the folder of its language (.mjs, .py). name is the client that the
// program calls; env is added to the environment. Each step that is not ok fails t, and so does a program that ends
// early.
func Run(t *testing.T, name, program string, env ...string) {
	t.Helper()
	folder := filepath.Join(Installed(t), map[string]string{".mjs": "npm", ".py": "python"}[filepath.Ext(program)])
	text, err := os.ReadFile(filepath.Join("testdata", "clients", program))
	if err != nil {
		t.Fatal(err)
	}
	// Node finds modules from the folder of the program.
	at := filepath.Join(folder, program)
	if err := os.WriteFile(at, text, 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"node", at}
	if filepath.Ext(program) == ".py" {
		command = []string{filepath.Join(folder, "bin", "python"), at}
	}
	Command(t, name, command, env...)
}

// Command is Run for a program that is run as command says.
func Command(t *testing.T, name string, command []string, env ...string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), command[0], command[1:]...)
	run.Env = append(os.Environ(), env...)
	var problems bytes.Buffer
	run.Stderr = &problems
	out, err := run.Output()
	passed, all := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		var step struct {
			Step, Error  string
			OK, Unserved bool
		}
		if json.Unmarshal(lines.Bytes(), &step) != nil {
			continue
		}
		all++
		if step.OK {
			passed++
			continue
		}
		t.Errorf("%s (not served: %v): %s", step.Step, step.Unserved, step.Error)
	}
	t.Logf("%s: %d of %d steps passed", name, passed, all)
	if err != nil || all == 0 {
		t.Errorf("%s ended early: %v\n%s", name, err, problems.String())
	}
}
