package secret

import "fmt"

// Types of file systems in memory, as statfs(2) reports them.
const (
	tmpfs = 0x01021994
	ramfs = 0x858458f6
)

// InMemory refuses the folder dir unless its file system is of a type that lives in
// memory: a secret in another would stay on a disk after the CVM is gone. Nothing turns
// this off, simulated trust neither: a folder that is wrong there is wrong everywhere.
func InMemory(dir string, fileSystem int64) error {
	switch uint32(fileSystem) {
	case tmpfs, ramfs:
		return nil
	}
	return fmt.Errorf("%s is not in memory (file system type %#x), and secrets must not reach a disk: "+
		"mount it from a volume with driver_opts { type: tmpfs, device: tmpfs }, or list it as a tmpfs of the service", dir, uint32(fileSystem))
}
