package images

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const maxFile = 1 << 20

// Map is the whole file: {"images": {"<repository>": {...}}}.
type Map struct {
	Images map[string]Image `json:"images"`
}

// Image is the program of a repository name.
type Image struct {
	// Path lists absolute directories put before the standard PATH. They are
	// visible in the service even where the sandbox hides their parent.
	Path []string `json:"path,omitempty"`
	// Mounts lists further absolute host paths that the programs need to see.
	Mounts []string `json:"mounts,omitempty"`
	// Env is the image's own environment; the compose file wins.
	Env map[string]string `json:"env,omitempty"`
	// User is the image's user when the compose file names none; empty is root.
	User       string   `json:"user,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`
	WorkingDir string   `json:"working_dir,omitempty"`
}

// Load reads and checks the map at path. Unknown fields are refused.
func Load(path string) (Map, error) {
	f, err := os.Open(path)
	if err != nil {
		return Map{}, fmt.Errorf("open image map: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Map{}, fmt.Errorf("read image map: %w", err)
	}
	m, err := Parse(raw)
	if err != nil {
		return Map{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Parse decodes and checks a map.
func Parse(raw []byte) (Map, error) {
	if len(raw) > maxFile {
		return Map{}, fmt.Errorf("image map: larger than %d bytes", maxFile)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var m Map
	if err := dec.Decode(&m); err != nil {
		return Map{}, fmt.Errorf("image map: %w", err)
	}
	for name, img := range m.Images {
		if name != Repository(name) {
			return Map{}, fmt.Errorf("image map: images[%q]: the key is a repository name without tag or digest; use %q", name, Repository(name))
		}
		for _, p := range slices.Concat(img.Path, img.Mounts) {
			if !filepath.IsAbs(p) {
				return Map{}, fmt.Errorf("image map: images[%q]: path %q is not absolute", name, p)
			}
		}
	}
	return m, nil
}

// Has reports whether the map has the reference's repository.
func (m Map) Has(ref string) bool {
	_, ok := m.Images[Repository(ref)]
	return ok
}

// Lookup finds the image for a reference such as "cadre/agent:1@sha256:...".
func (m Map) Lookup(ref string) (Image, error) {
	repo := Repository(ref)
	if img, ok := m.Images[repo]; ok {
		return img, nil
	}
	known := make([]string, 0, len(m.Images))
	for name := range m.Images {
		known = append(known, name)
	}
	slices.Sort(known)
	return Image{}, fmt.Errorf("image %q: repository %q is not in the image map (it has: %s)", ref, repo, strings.Join(known, ", "))
}

// Repository strips digest and tag: "reg:5000/a/b:1@sha256:x" is "reg:5000/a/b".
// Docker Hub's implied prefixes are dropped too.
func Repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if colon := strings.LastIndexByte(ref, ':'); colon > strings.LastIndexByte(ref, '/') {
		ref = ref[:colon]
	}
	ref = strings.TrimPrefix(ref, "docker.io/")
	return strings.TrimPrefix(ref, "library/")
}
