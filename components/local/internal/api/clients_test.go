package api

import (
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/platform/officialtest"
)

// TestOfficialClients compares the API with Phala's own clients, whose schemas are the contract:
// each step with a served endpoint passes, and each other step fails with an answer that the client
// can show. scripts/test-clients.sh installs the clients and sets CADRE_TEST_CLIENTS to their
// folder; without it the test is skipped.
func TestOfficialClients(t *testing.T) {
	officialtest.Installed(t)
	for _, c := range []struct{ name, program string }{
		{"npm @phala/cloud", "cloud.mjs"},
		{"PyPI phala-cloud", "cloud.py"},
		{"npm phala", "cli.mjs"},
	} {
		t.Run(c.program, func(t *testing.T) {
			r := newRig(t, cloud.Settings{})
			signer, err := attestsim.OpenCloud(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			r.close()
			r.sign = signer.SignEnvKey
			r.open(cloud.Settings{BootDelay: cloud.Duration(20 * time.Millisecond)})
			officialtest.Run(t, c.name, c.program, "CLOUD_URL="+r.host.URL+"/api/v1", "CLOUD_KEY="+testKey,
				"IMAGE="+ImageSlug(rigImages[0]), "OTHER_IMAGE="+ImageSlug(rigImages[1]))
		})
	}
}
