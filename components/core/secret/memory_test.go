package secret_test

import (
	"strings"
	"testing"

	"cadre.dev/core/secret"
)

// TOK-16: an unknown type of file system counts as a disk.
func TestTOK16_OnlyMemoryMayHoldSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		fileSystem int64
		allowed    bool
	}{
		"tmpfs": {0x01021994, true}, "ramfs": {0x858458f6, true}, "ramfs on 32 bits": {-0x7a7ba70a, true},
		"ext4": {0xef53, false}, "xfs": {0x58465342, false}, "overlay": {0x794c7630, false}, "zfs": {0x2fc12fc1, false}, "nothing": {0, false},
	} {
		err := secret.InMemory("/run/x", c.fileSystem)
		if (err == nil) != c.allowed || err != nil && (!strings.Contains(err.Error(), "/run/x") || !strings.Contains(err.Error(), "tmpfs")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
