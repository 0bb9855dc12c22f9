package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// Load parses text. env is the decrypted environment: the only source of
// interpolation. The error joins every problem found.
func Load(ctx context.Context, text []byte, env map[string]string) (App, error) {
	details := types.ConfigDetails{
		WorkingDir:  "/dstack",
		ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yaml", Content: text}},
		Environment: env,
	}
	project, err := loader.LoadWithContext(ctx, details, func(o *loader.Options) {
		o.SetProjectName("dstack", true)
		o.SkipNormalization = true
		o.SkipExtends = true
		o.SkipInclude = true
		o.ResolvePaths = false
	})
	if err != nil {
		return App{}, fmt.Errorf("compose file: %w", err)
	}
	if len(project.Services) == 0 {
		return App{}, errors.New("compose file: services: there is none to run")
	}
	c := &converter{project: project, volumes: map[string]Volume{}}
	c.topLevel()
	byName := map[string]Service{}
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		if slices.Contains(ownLogs, name) {
			c.refuse(name, "name", "the CVM's own log is called so here; call the service otherwise")
		}
		byName[name] = c.service(project.Services[name])
	}
	if err := errors.Join(c.errs...); err != nil {
		return App{}, err
	}
	order, err := startOrder(byName)
	if err != nil {
		return App{}, err
	}
	return App{Services: order, Volumes: c.volumes, Notes: c.notes}, nil
}

// ownLogs are the CVM's own log names. Each service has a log of its name in the same folder.
var ownLogs = []string{"cvm", "cvm-init"}

type converter struct {
	project *types.Project
	volumes map[string]Volume
	notes   []string
	errs    []error
}

func (c *converter) refuse(service, key, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("service %s: %s: %s", service, key, fmt.Sprintf(format, args...)))
}

func (c *converter) note(service, key, why string) {
	c.notes = append(c.notes, fmt.Sprintf("service %s: %s %s", service, key, why))
}

func (c *converter) topLevel() {
	if len(c.project.Networks) > 0 {
		c.notes = append(c.notes, "networks: ignored, every service uses the CVM's own network")
	}
	if len(c.project.Secrets) > 0 {
		c.errs = append(c.errs, errors.New("secrets: not supported in a CVM; derive them from the guest agent or fetch them from an attested peer"))
	}
	for name, v := range c.project.Volumes {
		vol, err := volume(name, v)
		if err != nil {
			c.errs = append(c.errs, fmt.Errorf("volumes.%s: %w", name, err))
			continue
		}
		c.volumes[name] = vol
	}
}

func volume(name string, v types.VolumeConfig) (Volume, error) {
	vol := Volume{Name: name}
	if v.Name != "" {
		vol.Name = v.Name
	}
	if strings.ContainsAny(vol.Name, "/\x00") || strings.HasPrefix(vol.Name, ".") {
		return vol, fmt.Errorf("name %q cannot be a directory name", vol.Name)
	}
	if bool(v.External) {
		return vol, errors.New("external: there is no volume outside this CVM")
	}
	if v.Driver != "" && v.Driver != "local" {
		return vol, fmt.Errorf("driver %q: only \"local\" is offered", v.Driver)
	}
	if len(v.DriverOpts) == 0 {
		return vol, nil
	}
	if v.DriverOpts["type"] != "tmpfs" {
		return vol, fmt.Errorf("driver_opts.type %q: only \"tmpfs\" is offered", v.DriverOpts["type"])
	}
	for k := range v.DriverOpts {
		if k != "type" && k != "device" && k != "o" {
			return vol, fmt.Errorf("driver_opts.%s: not supported", k)
		}
	}
	vol.Tmpfs, vol.Options = true, v.DriverOpts["o"]
	return vol, nil
}

// startOrder puts dependencies first; among free services, by name.
func startOrder(byName map[string]Service) ([]Service, error) {
	var order []Service
	state := map[string]int{} // 1 on the path, 2 placed
	var place func(name string, path []string) error
	place = func(name string, path []string) error {
		switch state[name] {
		case 1:
			return fmt.Errorf("services: depends_on goes round in a circle: %s", strings.Join(append(path, name), " → "))
		case 2:
			return nil
		}
		state[name] = 1
		for _, d := range byName[name].DependsOn {
			if err := place(d.Service, append(path, name)); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, byName[name])
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if err := place(name, nil); err != nil {
			return nil, err
		}
	}
	return order, nil
}
