package rig

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pinnedFile has the image references from the output of `cadre local up`.
func (r *Rig) pinnedFile() string { return filepath.Join(r.State, "pinned.json") }

// keepPinned stores the references, so that a later process that uses this rig rolls with the
// images of its cloud.
func (r *Rig) keepPinned(up []byte) error {
	var said struct {
		Pinned map[string]string `json:"pinned"`
	}
	if err := json.Unmarshal(up, &said); err != nil {
		return fmt.Errorf("read what `cadre local up` says: %w", err)
	}
	text, err := json.Marshal(said.Pinned)
	if err != nil {
		return err
	}
	return os.WriteFile(r.pinnedFile(), text, 0o600)
}

// ImageVars are the -var flags that name pinned images: of agent, agent_image.
func (r *Rig) ImageVars(names ...string) ([]string, error) {
	text, err := os.ReadFile(r.pinnedFile())
	if err != nil {
		return nil, fmt.Errorf("read the cloud's images: %w", err)
	}
	pinned := map[string]string{}
	if err := json.Unmarshal(text, &pinned); err != nil {
		return nil, fmt.Errorf("read %s: %w", r.pinnedFile(), err)
	}
	var vars []string
	for _, name := range names {
		ref := pinned[name]
		if ref == "" {
			return nil, fmt.Errorf("the cloud has no image %s: %s", name, r.missingImage())
		}
		vars = append(vars, "--var", strings.ReplaceAll(name, "-", "_")+"_image="+ref)
	}
	return vars, nil
}

// imageVar is the -var flag of the image of name that names image: the same one, or one of another version.
func (r *Rig) imageVar(name, image string) ([]string, error) {
	vars, err := r.ImageVars(image)
	if err != nil {
		return nil, err
	}
	_, ref, _ := strings.Cut(vars[1], "=")
	return []string{"--var", strings.ReplaceAll(name, "-", "_") + "_image=" + ref}, nil
}

func (r *Rig) missingImage() string {
	if r.Programs {
		return "run make tools build"
	}
	return "run make images"
}
