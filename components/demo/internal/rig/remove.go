package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Removed lists the removed parts.
type Removed struct {
	State string
	// Daemons that ran, of any starter; Killed: they did not end on request. Cleaned describes the
	// remains of a dead daemon.
	Daemons []int  `json:"daemons"`
	Killed  bool   `json:"killed"`
	Cleaned string `json:"cleaned"`
	// CVMs whose disks were removed; Folder says that there was a state folder.
	CVMs   int
	Folder bool
}

// Nothing reports that there was nothing to remove.
func (r Removed) Nothing() bool { return len(r.Daemons) == 0 && r.Cleaned == "" && !r.Folder }

func (r Removed) String() string {
	if r.Nothing() {
		return "nothing of " + r.State + " is there"
	}
	text := ""
	for _, pid := range r.Daemons {
		how := "stopped"
		if r.Killed {
			how = "killed"
		}
		text += fmt.Sprintf("%s the local cloud (pid %d); ", how, pid)
	}
	if r.Cleaned != "" {
		text += r.Cleaned + "; "
	}
	if !r.Folder {
		return text + "its folder " + r.State + " was gone already"
	}
	return text + fmt.Sprintf("removed %s with the disks of %d CVMs", r.State, r.CVMs)
}

// Remove ends the local cloud, of any starter, also its remains, and removes its state. An absent
// cloud is no error.
func (r *Rig) Remove(ctx context.Context) (Removed, error) {
	r.hangUp()
	did := Removed{State: r.State}
	cloud := filepath.Dir(r.CloudFile())
	out, err := r.CadreJSON(ctx, "local", "down", "--state", cloud)
	if err != nil {
		return did, err
	}
	if err := json.Unmarshal(out, &did); err != nil {
		return did, fmt.Errorf("read what `cadre local down` did: %w", err)
	}
	cvms, err := os.ReadDir(filepath.Join(cloud, "cvms"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return did, err
	}
	did.CVMs = len(cvms)
	if _, err := os.Stat(r.State); err == nil {
		did.Folder = true
	}
	if err := os.RemoveAll(r.State); err != nil {
		return did, fmt.Errorf("remove the state folder: %w", err)
	}
	return did, nil
}
