package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/local/internal/cloud"
)

// TestOfficialClients holds the API to Phala's own clients, whose schemas are the contract:
// each step whose endpoint is served passes, and what is not served fails with an answer
// that the client can show. scripts/test-clients.sh installs them and sets
// CADRE_TEST_CLIENTS to where; without it there is nothing to run.
func TestOfficialClients(t *testing.T) {
	installed := os.Getenv("CADRE_TEST_CLIENTS")
	if installed == "" {
		t.Skip("runs by make test-clients, which installs the clients")
	}
	for _, c := range []struct{ name, folder, program string }{
		{"npm @phala/cloud", "npm", "cloud.mjs"},
		{"PyPI phala-cloud", "python", "cloud.py"},
		{"npm phala", "npm", "cli.mjs"},
	} {
		t.Run(c.program, func(t *testing.T) {
			folder := filepath.Join(installed, c.folder)
			text, err := os.ReadFile(filepath.Join("testdata", "clients", c.program))
			if err != nil {
				t.Fatal(err)
			}
			// Node finds modules from the folder of the program.
			program := filepath.Join(folder, c.program)
			if err := os.WriteFile(program, text, 0o600); err != nil {
				t.Fatal(err)
			}
			command := []string{"node", program}
			if c.folder == "python" {
				command = []string{filepath.Join(folder, "bin", "python"), program}
			}
			r := newRig(t, cloud.Settings{})
			signer, err := attestsim.OpenCloud(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			r.close()
			r.sign = signer.SignEnvKey
			r.open(cloud.Settings{BootDelay: cloud.Duration(20 * time.Millisecond)})
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			run.Env = append(os.Environ(), "CLOUD_URL="+r.host.URL+"/api/v1", "CLOUD_KEY="+testKey, "IMAGE="+ImageSlug(rigImages[0]), "OTHER_IMAGE="+ImageSlug(rigImages[1]))
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
			t.Logf("%s: %d of %d steps passed", c.name, passed, all)
			if err != nil || all == 0 {
				t.Errorf("%s ended early: %v\n%s", c.program, err, problems.String())
			}
		})
	}
}
