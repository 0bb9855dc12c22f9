package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"cadre.dev/coordinator/internal/durable"
	"cadre.dev/core/clusterid"
)

const (
	fileName = "cluster-id.json"
	maxFile  = 1 << 10
)

// Stored is the content of the cluster ID file on this coordinator's disk. The zero Stored: no file.
type Stored struct {
	ClusterID string `json:"cluster_id"`
	// Recorded: the cluster ID was seen in the records. If it is missing later, the records are
	// lost.
	Recorded bool `json:"recorded"`
	// Drawn: this coordinator drew the cluster ID. No other one creates its record: an ID that was
	// only taken over, from a hint or from another coordinator, may be that of a lost cluster.
	Drawn bool `json:"drawn,omitempty"`
}

// Waits reports that the records of the cluster ID must come from another coordinator, or from a
// backup.
func (s Stored) Waits() bool { return !s.Recorded && !s.Drawn }

// Load reads the file in the state directory. A damaged file is an error: treated as missing, it
// could lead to a second cluster.
func Load(stateDir string) (Stored, error) {
	path := filepath.Join(stateDir, fileName)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Stored{}, nil
	}
	if err != nil {
		return Stored{}, fmt.Errorf("read the cluster ID: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return Stored{}, fmt.Errorf("read the cluster ID: %w", err)
	}
	var stored Stored
	err = json.Unmarshal(text, &stored)
	if err == nil {
		err = clusterid.Check(stored.ClusterID)
	}
	if err != nil {
		return Stored{}, fmt.Errorf("DISK_IDENTITY_MISMATCH: %s is damaged: %w; give this coordinator an empty disk, and it joins the others", path, err)
	}
	return stored, nil
}

// save writes the file so that it survives a loss of power.
func (s Stored) save(stateDir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the cluster ID: %w", err)
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("store the cluster ID: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(stateDir, fileName), append(text, '\n')); err != nil {
		return fmt.Errorf("store the cluster ID: %w", err)
	}
	return nil
}
