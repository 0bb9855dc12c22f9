package admit

import (
	"log/slog"
	"path/filepath"
	"testing"

	"cadre.dev/agent/internal/durable"
)

// TestGEN02_AClusterIDOfTheTrustFileNeedsNoDisk: without it a cluster ID that no disk keeps is
// not taken.
func TestGEN02_AClusterIDOfTheTrustFileNeedsNoDisk(t *testing.T) {
	const clusterID = "0123456789abcdef0123456789abcdef"
	for named, taken := range map[string]bool{"": false, clusterID: true} {
		disk := durable.OpenDisk(filepath.Join(t.TempDir(), "gone"), slog.New(slog.DiscardHandler))
		pin, err := OpenPin(disk, named)
		if err != nil {
			t.Fatal(err)
		}
		if err := pin.take(clusterID); (err == nil) != taken || len(disk.Faults()) != 1 {
			t.Errorf("named %q: %v, faults %q", named, err, disk.Faults())
		}
	}
}
