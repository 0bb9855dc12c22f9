package supervise

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cadre.dev/core/secret"
)

// TestAGossipKeyThatWasNotWrittenIsNotInUse: the next call writes it.
func TestAGossipKeyThatWasNotWrittenIsNotInUse(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := New(Config{VIP: netip.MustParseAddr("127.50.0.1"), DataDir: t.TempDir(), RunDir: blocked, GossipKey: secret.FromString("old")},
		func(time.Time) ([]byte, []byte, error) { return nil, nil, nil }, slog.New(slog.DiscardHandler))
	for range 2 {
		if err := c.UseGossip(secret.FromString("new"), true); err == nil {
			t.Error("a key that could not be written is in use")
		}
	}
}
