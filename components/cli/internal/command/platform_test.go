package command

import (
	"os"
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
)

// TestAGroupFileDefaultsToTheClustersPlatform: a file without a platform fits the cluster, and a diff
// shows no change of it.
func TestAGroupFileDefaultsToTheClustersPlatform(t *testing.T) {
	b := newBench(t)
	known, err := client.LoadContext(b.context)
	if err != nil {
		t.Fatal(err)
	}
	known.Platform = client.Platform{Driver: group.PlatformVMM, APIURL: "vmm:a=http://h:1"}
	if err := known.Save(b.context); err != nil {
		t.Fatal(err)
	}
	path := b.file("a", "5")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), `platform = "phala"`, "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := b.run("group", "apply", path); code != 0 {
		t.Fatalf("apply: %d %s", code, out)
	}
	b.Set("worker", func(g *clienttest.Group) {
		if g.Spec.Platform != group.PlatformVMM {
			t.Errorf("platform %q", g.Spec.Platform)
		}
	})
	if code, out := b.run("group", "diff", path); code != 0 || strings.Contains(out, "platform") {
		t.Errorf("diff: %d %s", code, out)
	}
}
