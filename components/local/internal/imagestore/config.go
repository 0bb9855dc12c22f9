package imagestore

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"cadre.dev/local/internal/become"
	"cadre.dev/local/internal/images"
)

// maxVolumes bounds the mounts at each start of a service.
const maxVolumes = 64

// storedOf takes the settings for running an image from its config.
func storedOf(c *v1.ConfigFile) (images.Stored, error) {
	out := images.Stored{
		Image: images.Image{
			User: c.Config.User, Entrypoint: c.Config.Entrypoint, Command: c.Config.Cmd, WorkingDir: c.Config.WorkingDir,
			Env: map[string]string{},
		},
		StopSignal: c.Config.StopSignal,
	}
	if out.WorkingDir != "" && (!path.IsAbs(out.WorkingDir) || strings.ContainsRune(out.WorkingDir, 0)) {
		return out, fmt.Errorf("its working directory %q is not an absolute path", out.WorkingDir)
	}
	for _, line := range c.Config.Env {
		key, value, _ := strings.Cut(line, "=")
		if key == "" || strings.ContainsRune(line, 0) {
			return out, fmt.Errorf("its environment has the line %.100q", line)
		}
		out.Env[key] = value
	}
	if n := len(c.Config.Volumes); n > maxVolumes {
		return out, fmt.Errorf("it has %d volumes; at most %d are taken", n, maxVolumes)
	}
	for _, target := range slices.Sorted(maps.Keys(c.Config.Volumes)) {
		if !path.IsAbs(target) || path.Clean(target) == "/" || strings.ContainsRune(target, 0) {
			return out, fmt.Errorf("its volume %q is not an absolute path below /", target)
		}
		if clean := path.Clean(target); clean == become.Path || strings.HasPrefix(clean, become.Path+"/") {
			return out, fmt.Errorf("its volume %q is where the local cloud has a program of its own", target)
		}
		out.Volumes = append(out.Volumes, path.Clean(target))
	}
	if h := c.Config.Healthcheck; h != nil {
		out.Health = &images.Health{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
	}
	return out, nil
}
