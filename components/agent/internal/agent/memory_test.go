package agent

import (
	"strings"
	"testing"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/agent/internal/workloadfiles"
)

// TOK-16: no agent starts that would write keys to a disk.
func TestTOK16_RunFolderOnADiskIsRefused(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := workloadfiles.InMemory(disk); err == nil {
		t.Skip("the temporary folder is in memory here")
	}
	a := newTestAgent(t, agenttest.NewWorld(t))
	a.cfg.RunDir = disk
	if _, err := New(a.cfg); err == nil || !strings.Contains(err.Error(), "--run-dir") {
		t.Errorf("on a disk: %v", err)
	}
}
