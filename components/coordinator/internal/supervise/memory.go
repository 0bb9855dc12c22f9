package supervise

import (
	"fmt"
	"os"
	"syscall"

	"cadre.dev/core/secret"
)

// InMemory creates each of dirs and rejects a folder that is not in memory: Consul's configuration
// holds the gossip key and tokens, and a copy on disk would stay there.
func InMemory(dirs ...string) error {
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make run folder: %w", err)
		}
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			return fmt.Errorf("check the file system of %s: %w", dir, err)
		}
		if err := secret.InMemory(dir, int64(st.Type)); err != nil {
			return err
		}
	}
	return nil
}
