package admit

import (
	"log/slog"
	"path/filepath"
	"testing"

	"cadre.dev/agent/internal/durable"
)

// TestGEN02_WhatTheTrustFileNamesNeedsNoDisk: without it a founding that no disk keeps is
// not taken.
func TestGEN02_WhatTheTrustFileNamesNeedsNoDisk(t *testing.T) {
	const founding = "0123456789abcdef0123456789abcdef"
	for named, taken := range map[string]bool{"": false, founding: true} {
		disk := durable.OpenDisk(filepath.Join(t.TempDir(), "gone"), slog.New(slog.DiscardHandler))
		pin, err := OpenPin(disk, named)
		if err != nil {
			t.Fatal(err)
		}
		if err := pin.take(founding); (err == nil) != taken || len(disk.Faults()) != 1 {
			t.Errorf("named %q: %v, faults %q", named, err, disk.Faults())
		}
	}
}
