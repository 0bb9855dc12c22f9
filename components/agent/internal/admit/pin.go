package admit

import (
	"fmt"
	"sync"

	"cadre.dev/agent/internal/durable"
	"cadre.dev/core/clusterid"
)

const (
	pinFile  = "cluster-id.json"
	pinLimit = 1 << 10
)

// Pin is the cluster ID of this CVM's cluster, fixed permanently. It comes from the measured trust
// file, or else from the first admission, and is stored on the preserved disk. Another cluster ID
// means another set of coordinators of the same app (GEN-02). Safe for concurrent use.
type Pin struct {
	disk  *durable.Disk // nil keeps nothing
	named string        // by the trust file; "" if it names none

	mu   sync.Mutex
	kept string // guarded by mu; "" before the first admission
}

type pinned struct {
	ClusterID string `json:"cluster_id"`
}

// OpenPin reads the pin from disk; with nil the pin is kept in memory only. named is the trust
// file's cluster ID or ""; it takes precedence over the disk.
func OpenPin(disk *durable.Disk, named string) (*Pin, error) {
	p := &Pin{disk: disk, named: named}
	if disk == nil {
		return p, nil
	}
	var file pinned
	found, err := disk.Read(pinFile, pinLimit, &file)
	if err == nil && found {
		err = clusterid.Check(file.ClusterID)
	}
	switch {
	case err == nil:
		p.kept = file.ClusterID
	case named == "":
		// Taken for none it would let anybody in.
		return nil, fmt.Errorf("DISK_IDENTITY_MISMATCH: %s does not name the cluster ID of this CVM's cluster: %w; name it in the measured trust file: \"cluster_id\" of the cluster's context", disk.Path(pinFile), err)
	}
	return p, nil
}

// Check rejects a coordinator's proved cluster ID if it is not the pinned one.
func (p *Pin) Check(proved string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &clusterid.MismatchError{Who: "the coordinator", Got: proved, Pinned: p.named, Where: "the measured trust file"}
	if p.named == "" {
		out.Pinned, out.Where = p.kept, "this CVM's disk"
	}
	if out.Pinned == "" || out.Pinned == proved {
		return nil
	}
	out.WayOut = fmt.Sprintf("if this CVM is to belong to the other one, roll out a trust file with \"cluster_id\": %q", proved)
	return out
}

// take pins the cluster ID that admitted this CVM. A pin only in memory would let the next boot
// join another cluster, so take fails without a working disk, unless the trust file names the
// cluster ID.
func (p *Pin) take(proved string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == proved {
		return nil
	}
	if p.disk != nil {
		if err := p.disk.Put(pinFile, pinned{ClusterID: proved}); err != nil && p.named == "" {
			return fmt.Errorf("pin the cluster ID: %w; make room on the disk, or name it in the measured trust file", err)
		}
	}
	p.kept = proved
	return nil
}
