package localcloud

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// programsFile of a checkout maps images to programs.
const programsFile = "compose/programs.json"

// Programs are the programs of one checkout, by image.
type Programs struct {
	root   string
	images map[string]program
	// Missing are the images without their programs, each with the missing ones.
	Missing map[string]string
}

// program is one image as the checkout's file has it; paths are relative to the checkout,
// or absolute, and may be patterns, whose last match counts.
type program struct {
	Path       []string `json:"path,omitempty"`
	Mounts     []string `json:"mounts,omitempty"`
	User       string   `json:"user,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	// Programs are the files that the image's digest covers.
	Programs []string `json:"programs"`
}

// ReadPrograms reads a checkout's file and looks up its programs.
func ReadPrograms(checkout string) (*Programs, error) {
	raw, err := os.ReadFile(filepath.Join(checkout, programsFile))
	if err != nil {
		return nil, fmt.Errorf("read the checkout's programs: %w", err)
	}
	p := &Programs{root: checkout, Missing: map[string]string{}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p.images); err != nil {
		return nil, fmt.Errorf("%s: %w", programsFile, err)
	}
	for name, image := range p.images {
		for _, list := range []*[]string{&image.Path, &image.Mounts, &image.Programs} {
			for i, path := range *list {
				(*list)[i] = p.at(path)
			}
		}
		for _, path := range image.Programs {
			if !isFile(path) {
				p.Missing[name] = path
			}
		}
		p.images[name] = image
	}
	for name := range p.Missing {
		delete(p.images, name)
	}
	return p, nil
}

// Names of the images whose programs are there, in order.
func (p *Programs) Names() []string { return slices.Sorted(maps.Keys(p.images)) }

// at is where a path of the file is on this machine.
func (p *Programs) at(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.root, path)
	}
	if found, err := filepath.Glob(path); err == nil && len(found) > 0 {
		return found[len(found)-1]
	}
	return path
}

// Write leaves the image map for a daemon.
func (p *Programs) Write(path string) error {
	type entry struct {
		Path       []string          `json:"path,omitempty"`
		Mounts     []string          `json:"mounts,omitempty"`
		Env        map[string]string `json:"env,omitempty"`
		User       string            `json:"user,omitempty"`
		Entrypoint []string          `json:"entrypoint,omitempty"`
	}
	// Services find only the declared commands of the machine, under their links.
	commands := filepath.Join(p.root, ".tools", "path", "run")
	_, err := os.Stat(commands)
	linked := err == nil
	images := map[string]entry{}
	for name, image := range p.images {
		e := entry{Path: image.Path, Mounts: image.Mounts, User: image.User, Entrypoint: image.Entrypoint}
		if linked {
			e.Mounts = append(slices.Clone(e.Mounts), commands)
			e.Env = map[string]string{"PATH": strings.Join(append(slices.Clone(image.Path), commands), ":")}
		}
		images[name] = e
	}
	raw, err := json.MarshalIndent(map[string]any{"images": images}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the image map: %w", err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the image map: %w", err)
	}
	return nil
}

// Reference is the pinned reference of an image. Its digest covers the programs' bytes: a rebuilt
// program is another image, and so another compose hash.
func (p *Programs) Reference(name string) (string, error) {
	image, ok := p.images[name]
	if !ok {
		if missed := p.Missing[name]; missed != "" {
			return "", fmt.Errorf("image %s: %s is missing: run `make tools build`", name, missed)
		}
		return "", fmt.Errorf("image %s is not in %s", name, programsFile)
	}
	sum := sha256.New()
	for _, path := range slices.Sorted(slices.Values(image.Programs)) {
		// The name keeps bytes from moving from one file to the next.
		_, _ = fmt.Fprintf(sum, "%s\x00", filepath.Base(path))
		if err := copyInto(sum, path); err != nil {
			return "", fmt.Errorf("digest image %s: %w", name, err)
		}
	}
	return name + "@sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

func copyInto(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}
