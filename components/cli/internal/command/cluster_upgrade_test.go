package command

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/platform/platformtest"
)

// TestUpgradeAndReplaceOfACoordinatorAreRefused runs the commands against a cloud whose CVMs run
// nothing: no coordinator proves itself, so that nothing may change.
func TestUpgradeAndReplaceOfACoordinatorAreRefused(t *testing.T) {
	b := newBench(t)
	fake := platformtest.NewFake()
	url, stop := fake.Serve()
	t.Cleanup(stop)
	file := filepath.Join(t.TempDir(), "cluster.hcl")
	write := func(change ...string) {
		t.Helper()
		text := strings.NewReplacer(change...).Replace(`cluster "demo" {
  platform "phala" {
    api_url = "` + url + `"
    api_key = "` + platformtest.Key + `"
  }
  gateway {
    domain  = "gw.test"
    address = "ADDRESS"
  }
  coordinator {
    replicas      = 1
    compose       = "services:\n  coordinator:\n    image: c@sha256:${sha256("c")}\n# ${cadre.trust_json}"
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
  }
  trust {
    allow_simulated = true
    key_provider {
      name = "kms"
      id   = "ab"
    }
  }
}
`)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.LoadContext(b.context)
	if err != nil {
		t.Fatal(err)
	}
	address := c.Gateway.Address
	digest := sha256.Sum256([]byte(c.Token))
	c.Trust.OperatorTokenSHA256 = hex.EncodeToString(digest[:])
	write("ADDRESS", address)
	if code, out := b.run("cluster", "upgrade", file, "--plan"); code == ExitOK || !strings.Contains(out, "trust.key_provider") {
		t.Errorf("another key provider: exit %d\n%s", code, out)
	}
	c.Trust.KeyProvider.Name, c.Trust.KeyProvider.ID = "kms", "ab"
	c.CoordinatorAppNonce = "7"
	if err := c.Save(b.context); err != nil {
		t.Fatal(err)
	}
	if code, out := b.run("cluster", "upgrade", file, "--yes"); code == ExitOK || !strings.Contains(out, "the platform has no coordinator") {
		t.Errorf("no CVM: exit %d\n%s", code, out)
	}
	// The creation ends when no coordinator proves itself, with its CVM made.
	if code, out := b.run("cluster", "create", file, "--context", b.context, "--timeout", "2s"); code == ExitOK || !strings.Contains(out, "creating demo-coordinator-0") {
		t.Fatalf("create: exit %d\n%s", code, out)
	}
	code, out := b.run("cluster", "upgrade", file, "--plan")
	if code != ExitOK || !strings.Contains(out, "coordinator-0  running") || !strings.Contains(out, "does not answer") || !strings.Contains(out, "the next step waits: coordinator-0") {
		t.Errorf("plan: exit %d\n%s", code, out)
	}
	if code, out := b.run("cluster", "upgrade", file, "--plan", "-o", "json"); code != ExitOK || !strings.Contains(out, `"action": "wait"`) {
		t.Errorf("plan as JSON: exit %d\n%s", code, out)
	}
	write("ADDRESS", address, "image: c@", "image: d@")
	b.Fail("ListGroups", status.Error(codes.PermissionDenied, "no"))
	if code, out := b.run("cluster", "upgrade", file, "--yes"); code == ExitOK || !strings.Contains(out, "whether trust files of groups must know the new coordinators is unknown") {
		t.Errorf("groups that cannot be read: exit %d\n%s", code, out)
	}
	b.Fail("ListGroups", nil)
	if code, out := b.run("cluster", "upgrade", file); code != ExitUsage || !strings.Contains(out, "nothing is changed: repeat with --confirm demo") || !strings.Contains(out, "1. change coordinator-0: compose hash") {
		t.Errorf("unconfirmed: exit %d\n%s", code, out)
	}
	for _, call := range fake.Calls() {
		if strings.HasPrefix(call, "PATCH") {
			t.Errorf("an unconfirmed upgrade made the call %s", call)
		}
	}
	for _, args := range [][]string{
		{"cluster", "upgrade"}, {"cluster", "upgrade", file, "--deadline", "-1s"}, {"cluster", "replace", "coordinator-0"},
	} {
		if code, out := b.run(args...); code != ExitUsage {
			t.Errorf("%v: exit %d\n%s", args, code, out)
		}
	}
	for slot, why := range map[string]string{"coordinator-0": "is the only coordinator", "pg-0": "no coordinator"} {
		if code, out := b.run("cluster", "replace", slot, file, "--yes"); code != ExitRefused || !strings.Contains(out, why) {
			t.Errorf("replace %s: exit %d\n%s", slot, code, out)
		}
	}
}
