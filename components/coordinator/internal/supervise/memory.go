package supervise

import (
	"fmt"
	"os"
	"syscall"
)

// Magic numbers of file systems that live in memory (statfs(2)).
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// InMemory makes dir and refuses it unless it is in memory: Consul's configuration
// holds the gossip key and tokens, and what reaches a disk stays there.
func InMemory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make run folder: %w", err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	switch uint32(st.Type) {
	case tmpfsMagic, ramfsMagic:
		return nil
	}
	return fmt.Errorf("%s is not in memory (file system type %#x), and keys must not reach a disk: list it as a tmpfs of the service", dir, uint32(st.Type))
}
