package admit

import (
	"fmt"
	"path/filepath"
	"sync"

	"cadre.dev/agent/internal/durable"
	"cadre.dev/core/founding"
)

const (
	pinFile  = "founding.json"
	pinLimit = 1 << 10
)

// Pin is the founding of the cluster that this CVM belongs to, for good: the one that the
// measured trust file names, else the first one that admitted it, kept on the preserved
// disk. Any other is another set of coordinators of the same app (GEN-02). Safe for
// concurrent use.
type Pin struct {
	path  string // "" keeps nothing
	named string // by the trust file; "" if it names none

	mu   sync.Mutex
	kept string // guarded by mu; "" before the first admission
}

type pinned struct {
	Founding string `json:"founding"`
}

// OpenPin reads what stateDir keeps; with "" it is kept in memory alone. named is the
// trust file's founding or "": what it names counts, whatever the disk says.
func OpenPin(stateDir, named string) (*Pin, error) {
	p := &Pin{named: named}
	if stateDir == "" {
		return p, nil
	}
	p.path = filepath.Join(stateDir, pinFile)
	var disk pinned
	found, err := durable.ReadJSON(p.path, pinLimit, &disk)
	if err == nil && found {
		err = founding.Check(disk.Founding)
	}
	switch {
	case err == nil:
		p.kept = disk.Founding
	case named == "":
		// Taken for none it would let anybody in.
		return nil, fmt.Errorf("DISK_IDENTITY_MISMATCH: %s does not tell which founding of the cluster this CVM belongs to: %w; name it in the measured trust file: \"founding\" of the cluster's context", p.path, err)
	}
	return p, nil
}

// Check refuses what a coordinator proved if it is not the pinned founding.
func (p *Pin) Check(proved string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &founding.MismatchError{Who: "the coordinator", Got: proved, Pinned: p.named, Where: "the measured trust file"}
	if p.named == "" {
		out.Pinned, out.Where = p.kept, "this CVM's disk"
	}
	if out.Pinned == "" || out.Pinned == proved {
		return nil
	}
	out.WayOut = fmt.Sprintf("if this CVM is to belong to the other one, roll out a trust file with \"founding\": %q", proved)
	return out
}

// take pins a founding that admitted this CVM.
func (p *Pin) take(proved string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == proved {
		return nil
	}
	if p.path != "" {
		if err := durable.WriteJSON(p.path, pinned{Founding: proved}); err != nil {
			return fmt.Errorf("pin the founding: %w", err)
		}
	}
	p.kept = proved
	return nil
}
