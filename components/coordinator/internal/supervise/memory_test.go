package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/core/secret/secrettest"
)

// TOK-16: a folder on a disk is rejected for keys, also inside of another folder.
func TestTOK16_RunFolderOnADiskIsRefused(t *testing.T) {
	memory, disk := secrettest.MemoryDir(t), t.TempDir()
	inside := filepath.Join(memory, "run", "consul")
	if err := InMemory(filepath.Dir(inside), inside); err != nil {
		t.Error(err)
	}
	if err := InMemory(disk); err == nil {
		t.Skip("the temporary folder is in memory here")
	}
	if err := os.Remove(inside); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(disk, inside); err != nil {
		t.Fatal(err)
	}
	if err := InMemory(filepath.Dir(inside), inside); err == nil || !strings.Contains(err.Error(), inside+" is not in memory") {
		t.Errorf("%v; want a refusal of %s", err, inside)
	}
}
