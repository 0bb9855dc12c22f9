package workloadfiles

import (
	"errors"
	"fmt"
)

// errWithdrawn: a part that does not know yet that the Slot is lost writes nothing.
var errWithdrawn = errors.New("the files were withdrawn")

// Withdraw removes the files with which workloads start and act as the Slot: the ready file, the
// Consul token and the secrets. It serves a Boot that lost its Slot, and is final: the next Boot
// opens the folder again.
func (f *Folder) Withdraw() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withdrawn = true
	errs := []error{f.dir.remove("ready"), f.dir.remove("consul-token")}
	names, err := f.secrets.names()
	errs = append(errs, err)
	for _, name := range names {
		errs = append(errs, f.secrets.remove(name))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("withdraw mesh files: %w", err)
	}
	return nil
}
