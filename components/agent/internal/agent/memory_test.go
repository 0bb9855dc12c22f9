package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/agent/internal/mesh"
)

// TOK-16: no agent starts that would write keys to a disk, the Consul agent's folder
// included.
func TestTOK16_RunFolderOnADiskIsRefused(t *testing.T) {
	disk := t.TempDir()
	if err := mesh.InMemory(disk); err == nil {
		t.Skip("the temporary folder is in memory here")
	}
	a := newTestAgent(t, agenttest.NewWorld(t))
	memory := a.cfg.RunDir
	a.cfg.RunDir = disk
	if _, err := New(a.cfg); err == nil || !strings.Contains(err.Error(), "--run-dir") {
		t.Errorf("on a disk: %v", err)
	}
	a.cfg.RunDir = memory
	if err := os.MkdirAll(memory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(disk, filepath.Join(memory, "consul")); err != nil {
		t.Fatal(err)
	}
	if _, err := New(a.cfg); err == nil || !strings.Contains(err.Error(), "consul is not in memory") {
		t.Errorf("with Consul's folder on a disk: %v", err)
	}
}
