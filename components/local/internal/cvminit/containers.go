package cvminit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/durable"
	"cadre.dev/local/internal/images"
)

// engineDir is where a guest's container engine keeps its state; here it is a folder of the
// data disk, so it outlives stops, updates and power cuts as it does in a real guest.
const engineDir = "/var/lib/docker"

const (
	project      = "dstack"
	labelProject = "com.docker.compose.project"
	labelService = "com.docker.compose.service"
	labelConfig  = "com.docker.compose.config-hash"
)

// container is one container in the engine's form on the disk: config.v2.json, with the engine's
// field names. Content is the model's own field: the engine spreads it over many fields.
type container struct {
	ID     string
	Name   string
	Config struct {
		Image  string
		Labels map[string]string
	}
	State struct {
		Running  bool
		ExitCode int
	}
	HasBeenManuallyStopped bool
	Content                content
}

// content is the input from which a container was created. A restored container runs by it, also
// after a change of the compose file.
type content struct {
	Service compose.Service
	Volumes map[string]compose.Volume
	// Unpacked is nil where programs of the machine replace the image.
	Unpacked *images.Unpacked
}

func (c content) digest() (string, error) {
	raw, err := json.Marshal(content{Service: c.Service, Volumes: c.Volumes})
	if err != nil {
		return "", fmt.Errorf("encode service: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// returns reports whether the engine starts the container at its own start, as observed with
// dockerd 20.10.
func (c *container) returns() bool {
	switch c.Content.Service.Restart {
	case compose.RestartAlways:
		return true
	case compose.RestartUnlessStopped:
		return !c.HasBeenManuallyStopped
	case compose.RestartOnFailure:
		return c.State.Running || c.State.ExitCode != 0
	default:
		return false
	}
}

// store is the engine's folder on the data disk.
type store struct{ dir string }

func (s store) path(id string) string { return filepath.Join(s.dir, "containers", id) }

// list returns the containers by id. It leaves an unreadable one out, with its error.
func (s store) list() ([]*container, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "containers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var out []*container
	var errs []error
	for _, e := range entries {
		var c container
		raw, err := os.ReadFile(filepath.Join(s.path(e.Name()), "config.v2.json"))
		if err == nil {
			err = json.Unmarshal(raw, &c)
		}
		if err != nil || c.ID != e.Name() {
			errs = append(errs, fmt.Errorf("container %s cannot be read: %w", e.Name(), err))
			continue
		}
		out = append(out, &c)
	}
	return out, errors.Join(errs...)
}

// create makes a container with its writable layer.
func (s store) create(of content) (*container, error) {
	digest, err := of.digest()
	if err != nil {
		return nil, err
	}
	c := &container{ID: newID(), Name: "/" + project + "-" + of.Service.Name + "-1", Content: of}
	c.Config.Image = of.Service.Image
	c.Config.Labels = map[string]string{labelProject: project, labelService: of.Service.Name, labelConfig: digest}
	if err := s.layers(c); err != nil {
		return nil, fmt.Errorf("make container: %w", err)
	}
	if err := os.MkdirAll(s.path(c.ID), 0o710); err != nil {
		return nil, fmt.Errorf("make container: %w", err)
	}
	host, err := json.Marshal(map[string]any{
		"NetworkMode":   "host",
		"RestartPolicy": map[string]any{"Name": of.Service.Restart, "MaximumRetryCount": of.Service.MaxRetries},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(s.path(c.ID), "hostconfig.json"), host, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("make container: %w", err)
	}
	return c, s.save(c)
}

// layers puts a container's writable layer, and its image's, where the overlay2 driver has them.
// They are empty here: files that a service writes outside of its volumes are in memory.
func (s store) layers(c *container) error {
	layer, top := newID(), strings.ToUpper(newID()[:26])
	sum := sha256.Sum256([]byte(c.Config.Image))
	image := hex.EncodeToString(sum[:])
	mount := filepath.Join(s.dir, "image/overlay2/layerdb/mounts", c.ID)
	for _, dir := range []string{
		mount, filepath.Join(s.dir, "image/overlay2/imagedb/content/sha256"), filepath.Join(s.dir, "overlay2/l"),
		filepath.Join(s.dir, "overlay2", image, "diff"), filepath.Join(s.dir, "overlay2", layer, "diff"), filepath.Join(s.dir, "overlay2", layer+"-init", "diff"),
	} {
		if err := os.MkdirAll(dir, 0o710); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		filepath.Join(mount, "mount-id"):                                     layer,
		filepath.Join(mount, "init-id"):                                      layer + "-init",
		filepath.Join(mount, "parent"):                                       "sha256:" + image,
		filepath.Join(s.dir, "image/overlay2/imagedb/content/sha256", image): "{}",
		filepath.Join(s.dir, "overlay2", layer, "link"):                      top,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.Symlink("../"+layer+"/diff", filepath.Join(s.dir, "overlay2/l", top))
}

func (s store) save(c *container) error {
	raw, err := json.Marshal(c)
	if err == nil {
		err = durable.Write(filepath.Join(s.path(c.ID), "config.v2.json"), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write container %.12s: %w", c.ID, err)
	}
	return nil
}

// remove takes a container away with its writable layer, as the engine does.
func (s store) remove(c *container) error {
	mount := filepath.Join(s.dir, "image/overlay2/layerdb/mounts", c.ID)
	errs := []error{os.RemoveAll(s.path(c.ID))}
	for _, name := range []string{"mount-id", "init-id"} {
		raw, err := os.ReadFile(filepath.Join(mount, name))
		if err != nil || strings.ContainsAny(string(raw), "/.") || len(raw) == 0 {
			continue
		}
		layer := filepath.Join(s.dir, "overlay2", string(raw))
		if top, err := os.ReadFile(filepath.Join(layer, "link")); err == nil {
			errs = append(errs, os.Remove(filepath.Join(s.dir, "overlay2/l", filepath.Base(string(top)))))
		}
		errs = append(errs, os.RemoveAll(layer))
	}
	return errors.Join(append(errs, os.RemoveAll(mount))...)
}

func newID() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

// contentOf is the input for a container of the service, with the file's volumes that the service
// mounts.
func contentOf(svc compose.Service, all map[string]compose.Volume, unpacked map[string]images.Unpacked) content {
	c := content{Service: svc, Volumes: maps.Clone(all)}
	maps.DeleteFunc(c.Volumes, func(name string, _ compose.Volume) bool {
		return !slices.ContainsFunc(svc.Mounts, func(m compose.Mount) bool { return m.Kind == compose.MountVolume && m.Source == name })
	})
	if img, ok := unpacked[svc.Image]; ok {
		c.Unpacked = &img
	}
	return c
}
