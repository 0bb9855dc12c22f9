package workloadfiles

import (
	"fmt"
	"syscall"

	"cadre.dev/core/secret"
)

// InMemory refuses a folder that is not in memory.
func InMemory(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	return secret.InMemory(dir, int64(st.Type))
}
