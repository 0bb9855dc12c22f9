package build

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"cadre.dev/images/internal/bom"
	"cadre.dev/images/internal/oci"
	"cadre.dev/images/internal/recipe"
)

// searchPath is PATH where a recipe says nothing.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The documents about an image are files of its name with these endings.
const (
	sbomEnding       = ".spdx.json"
	provenanceEnding = ".provenance.json"
)

// write makes the images of their layers, with the documents about them.
func (r *run) write(wanted []*recipe.Recipe) ([]Result, error) {
	var named []oci.Named
	var results []Result
	about := r.Out + "-about"
	if err := os.MkdirAll(about, 0o755); err != nil { //nolint:gosec // public files
		return nil, fmt.Errorf("make the folder of documents: %w", err)
	}
	for _, ending := range []string{sbomEnding, provenanceEnding} {
		old, _ := filepath.Glob(filepath.Join(about, "*"+ending))
		for _, name := range old {
			if err := os.Remove(name); err != nil {
				return nil, fmt.Errorf("remove what was said about another build: %w", err)
			}
		}
	}
	users := map[string]int{}
	for _, w := range wanted {
		for _, one := range r.set.Chain(w) {
			users[one.Name]++
		}
	}
	for _, w := range wanted {
		chain := r.chain(w)
		img, err := r.image(w, chain)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		n := oci.Named{Ref: w.Name + ":" + r.Version, Image: img}
		if n.About, err = r.about(n, w, chain, about); err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		named = append(named, n)
		result := Result{Ref: n.Ref, Digest: img.Descriptor.Digest.String(), Layers: len(chain)}
		for _, l := range chain {
			result.Size += l.blob.Descriptor.Size
			result.Raw += l.blob.Raw
			if users[l.recipe.Name] == 1 {
				result.Own += l.blob.Descriptor.Size
				result.Took += l.took
			}
		}
		results = append(results, result)
	}
	return results, oci.WriteLayout(r.Out, named)
}

func (r *run) chain(w *recipe.Recipe) []*layer {
	var chain []*layer
	for _, one := range r.set.Chain(w) {
		chain = append(chain, r.layers[one.Name])
	}
	return chain
}

// newest is the time of an image: that of its youngest layer.
func newest(chain []*layer) time.Time {
	return slices.MaxFunc(chain, func(a, b *layer) int { return a.time.Compare(b.time) }).time
}

func (r *run) image(w *recipe.Recipe, chain []*layer) (*oci.Image, error) {
	labels := map[string]string{
		"org.opencontainers.image.title": w.Name, "org.opencontainers.image.description": w.Description, "org.opencontainers.image.version": r.Version,
	}
	if w.Licenses != "" {
		labels["org.opencontainers.image.licenses"] = w.Licenses
	}
	env := map[string]string{"PATH": searchPath}
	for name, value := range w.Env {
		env[name] = value
	}
	config := v1.ConfigFile{
		Architecture: "amd64", OS: "linux", Created: v1.Time{Time: newest(chain).UTC()},
		Config: v1.Config{User: w.RunAs, Entrypoint: w.Entrypoint, Cmd: w.Command, WorkingDir: w.WorkingDir, Labels: labels},
	}
	for name, value := range env {
		config.Config.Env = append(config.Config.Env, name+"="+value)
	}
	slices.Sort(config.Config.Env)
	for _, p := range w.Ports {
		if config.Config.ExposedPorts == nil {
			config.Config.ExposedPorts = map[string]struct{}{}
		}
		config.Config.ExposedPorts[p] = struct{}{}
	}
	var blobs []oci.Blob
	for _, l := range chain {
		blobs = append(blobs, l.blob)
		config.History = append(config.History, v1.History{Created: v1.Time{Time: l.time.UTC()}, CreatedBy: "cadre-images " + l.recipe.Name, Comment: l.recipe.Description})
	}
	return oci.New(config, blobs, labels)
}

// about writes the documents about an image, into the layout and next to it.
func (r *run) about(n oci.Named, w *recipe.Recipe, chain []*layer, dir string) ([]*oci.Image, error) {
	subject := bom.Subject{Name: n.Ref, Digest: n.Image.Descriptor.Digest.String(), Time: newest(chain), Licence: w.Licenses}
	var components []bom.Component
	var inputs []bom.Input
	for _, l := range chain {
		components = append(components, l.components...)
		inputs = append(inputs, l.inputs...)
	}
	sbom, err := bom.SPDX(subject, components)
	if err != nil {
		return nil, err
	}
	provenance, err := bom.Provenance(subject, bom.Build{
		Image: w.Name, Version: r.Version, Source: r.Source, Toolchain: r.set.Pins.Toolchain, Compressor: compressor(), Inputs: inputs,
		Settings: []string{"CGO_ENABLED=0", "GOAMD64=v1", "GOFLAGS=", "-trimpath", "-buildvcs=false"},
	})
	if err != nil {
		return nil, err
	}
	var artifacts []*oci.Image
	for _, doc := range []struct {
		kind, ending string
		data         []byte
	}{{bom.SPDXType, sbomEnding, sbom}, {bom.ProvenanceType, provenanceEnding, provenance}} {
		a, err := oci.NewArtifact(n.Image.Descriptor, types.MediaType(doc.kind), doc.data, map[string]string{
			"org.opencontainers.image.created": subject.Time.UTC().Format(time.RFC3339), "org.opencontainers.image.title": w.Name + doc.ending,
		})
		if err != nil {
			return nil, err
		}
		artifacts = append(artifacts, a)
		if err := os.WriteFile(filepath.Join(dir, w.Name+doc.ending), doc.data, 0o644); err != nil { //nolint:gosec // public files
			return nil, fmt.Errorf("write document: %w", err)
		}
	}
	return artifacts, nil
}
