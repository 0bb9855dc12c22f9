package rig

import (
	"context"
	"path/filepath"
)

// Light is the group of clusters/light: three small web servers.
const Light = "light"

// Coordinators of clusters/light.
const Coordinators = 3

// CreateLightCluster deploys the coordinators and waits until they answer and are proven.
func (r *Rig) CreateLightCluster(ctx context.Context) error {
	return r.createCluster(ctx, "clusters/light/cluster.hcl")
}

// LightFile is the file of the light group.
func (r *Rig) LightFile() string { return filepath.Join(r.Root, "clusters/light/light.hcl") }

// ApplyLight writes the light group's spec from file with the given release, and returns the
// command's output. Later flags win over earlier ones.
func (r *Rig) ApplyLight(ctx context.Context, file, release string, flags ...string) (string, error) {
	vars, err := r.ImageVars("agent", "light")
	if err != nil {
		return "", err
	}
	args := append([]string{"group", "apply", "--var", "cloud=" + r.CloudFile(), "--var", "context=" + r.ContextFile()}, vars...)
	args = append(append(args, "--var", "release="+release), flags...)
	return r.Cadre(ctx, append(args, file)...)
}
