package mesh

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// errWithdrawn: a part that does not know yet that the Slot is lost writes nothing.
var errWithdrawn = errors.New("the files were withdrawn")

// Withdraw takes back what lets workloads start and act as the Slot: the ready
// file, the Consul token and the secrets. It is for a Boot that lost its Slot, and
// final: the next Boot opens the folder anew.
func (f *Folder) Withdraw() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	paths := []string{filepath.Join(f.dir, "ready"), filepath.Join(f.dir, "consul-token")}
	secrets, err := filepath.Glob(filepath.Join(f.dir, "secrets", "*"))
	errs := []error{err}
	for _, path := range append(paths, secrets...) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	f.withdrawn = true
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("withdraw mesh files: %w", err)
	}
	return nil
}
