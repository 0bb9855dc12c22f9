package mesh

import (
	"fmt"
	"syscall"
)

// Magic numbers of file systems that live in memory (statfs(2)).
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// InMemory refuses a folder that is not in memory: a secret in it would stay on a
// disk after the CVM is gone. This holds under simulated trust too, since a folder
// that is wrong there is wrong everywhere.
func InMemory(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	switch uint32(st.Type) {
	case tmpfsMagic, ramfsMagic:
		return nil
	}
	return fmt.Errorf("%s is not in memory (file system type %#x), and secrets must not reach a disk: "+
		"mount it from a volume with driver_opts { type: tmpfs, device: tmpfs }, or list it as a tmpfs of the service", dir, uint32(st.Type))
}
