package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// Image is how the local cloud runs an image reference: host programs instead of
// layers. The fields are the local cloud's image map.
type Image struct {
	Path       []string          `json:"path,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	User       string            `json:"user,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Command    []string          `json:"command,omitempty"`
	Mounts     []string          `json:"mounts,omitempty"`
	// Programs are the files that the digest covers.
	Programs []string `json:"-"`
}

// ImageMap names the images of the demo.
type ImageMap map[string]Image

// Images maps the images of compose/ to this machine's programs. bin holds our
// own binaries, tools what scripts/tools.sh installed, postgresBin the server's.
// Of the machine's commands, services find those that scripts/tools.sh declares.
func Images(bin, tools, postgresBin string) ImageMap {
	images := programs(bin, tools, postgresBin)
	for name, image := range images {
		image.Mounts = append(image.Mounts, filepath.Join(tools, "path/run"))
		image.Env = map[string]string{"PATH": strings.Join(append(slices.Clone(image.Path), filepath.Join(tools, "path/run")), ":")}
		images[name] = image
	}
	return images
}

func programs(bin, tools, postgresBin string) ImageMap {
	path := []string{bin, filepath.Join(tools, "bin")}
	return ImageMap{
		"cadre/agent": {
			Path: path, User: "root", Entrypoint: []string{"cadre-agent"},
			Programs: []string{filepath.Join(bin, "cadre-agent"), filepath.Join(bin, "cadre-exec")},
		},
		"cadre/coordinator": {
			Path: path, User: "root", Entrypoint: []string{"cadre-coordinator"},
			Programs: []string{filepath.Join(bin, "cadre-coordinator"), filepath.Join(tools, "bin/consul")},
		},
		"cadre/patroni": {
			Path: []string{filepath.Join(tools, "patroni/bin"), postgresBin}, Mounts: []string{filepath.Join(tools, "patroni")}, User: "postgres",
			Programs: []string{filepath.Join(tools, "patroni/bin/patroni"), filepath.Join(postgresBin, "postgres")},
		},
		"cadre/load": {
			Path: path, User: "nobody", Programs: []string{filepath.Join(bin, "cadre-load")},
		},
		"cadre/light": {
			User: "nobody", Programs: []string{"/usr/bin/python3"},
		},
		"cadre/etcd": {
			Path: path, User: "nobody", Programs: []string{filepath.Join(tools, "bin/etcd")},
		},
	}
}

// Write stores the map where the local cloud reads it.
func (m ImageMap) Write(path string) error {
	data, err := json.MarshalIndent(map[string]any{"images": m}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the image map: %w", err)
	}
	return os.WriteFile(path, data, 0o600)
}

// Reference returns the pinned reference of an image: its digest is that of the
// programs' bytes, so that a rebuilt program is another image and so another
// compose hash, as with a real registry.
func (m ImageMap) Reference(name string) (string, error) {
	image, ok := m[name]
	if !ok {
		return "", fmt.Errorf("image %s is not in the image map", name)
	}
	programs := append([]string(nil), image.Programs...)
	sort.Strings(programs)
	sum := sha256.New()
	for _, program := range programs {
		if err := hashFile(sum, program); err != nil {
			return "", fmt.Errorf("digest image %s: %w", name, err)
		}
	}
	return name + "@sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

func hashFile(sum io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	// The name separates files, so that bytes cannot move from one to the next.
	if _, err := fmt.Fprintf(sum, "%s\x00", filepath.Base(path)); err != nil {
		return err
	}
	_, err = io.Copy(sum, file)
	return err
}
