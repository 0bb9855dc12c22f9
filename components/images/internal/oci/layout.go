package oci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// RefName is the annotation that names an image in a layout: "<name>:<version>".
const RefName = "org.opencontainers.image.ref.name"

// Named is an image with the documents about it.
type Named struct {
	// Ref is "<name>:<version>".
	Ref   string
	Image *Image
	// About are artifacts whose subject is the image.
	About []*Image
}

// WriteLayout writes a layout of exactly these images into dir, in place of an earlier one. A
// reader of dir meanwhile finds the old layout or the new one, or for an instant none.
func WriteLayout(dir string, images []Named) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil { //nolint:gosec // public files
		return fmt.Errorf("make layout: %w", err)
	}
	if err := ours(dir); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(parent, ".images-new-")
	if err != nil {
		return fmt.Errorf("make layout: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	if err := os.Chmod(fresh, 0o755); err != nil { //nolint:gosec // public files
		return fmt.Errorf("make layout: %w", err)
	}
	l, err := layout.Write(fresh, empty.Index)
	if err != nil {
		return fmt.Errorf("make layout: %w", err)
	}
	images = slices.Clone(images)
	slices.SortFunc(images, func(a, b Named) int { return strings.Compare(a.Ref, b.Ref) })
	for _, n := range images {
		named := n.Image.Descriptor
		named.Annotations = map[string]string{RefName: n.Ref}
		if err := appendTo(l, n.Image, named); err != nil {
			return fmt.Errorf("write %s: %w", n.Ref, err)
		}
		for _, a := range n.About {
			if err := appendTo(l, a, a.Descriptor); err != nil {
				return fmt.Errorf("write what is said about %s: %w", n.Ref, err)
			}
		}
	}
	old := fresh + "-old"
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace layout: %w", err)
	}
	return errors.Join(os.Rename(fresh, dir), os.RemoveAll(old))
}

// ours refuses to replace a folder that is no layout.
func ours(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make layout: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("%s has files and is no image layout: name another folder with --out", dir)
	}
	return nil
}

func appendTo(l layout.Path, img *Image, as v1.Descriptor) error {
	if err := l.WriteImage(img); err != nil {
		return err
	}
	return l.AppendDescriptor(as)
}

// ReadLayout reads a layout as WriteLayout writes them. Blobs are read when they are
// used, and a registry checks their digests.
func ReadLayout(dir string) ([]Named, error) {
	l, err := layout.FromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read layout: %w", err)
	}
	index, err := l.ImageIndex()
	if err != nil {
		return nil, fmt.Errorf("read layout: %w", err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read layout: %w", err)
	}
	var images []Named
	at := map[v1.Hash]int{}
	about := map[v1.Hash][]*Image{}
	for _, d := range m.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", d.Digest, err)
		}
		img := &Image{Image: image, Descriptor: d}
		if ref := d.Annotations[RefName]; ref != "" {
			at[d.Digest] = len(images)
			images = append(images, Named{Ref: ref, Image: img})
			continue
		}
		manifest, err := image.Manifest()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", d.Digest, err)
		}
		if manifest.Subject != nil {
			about[manifest.Subject.Digest] = append(about[manifest.Subject.Digest], img)
		}
	}
	for digest, i := range at {
		images[i].About = about[digest]
	}
	return images, nil
}

// Data returns the one layer of an artifact, which must be small.
func (i *Image) Data() ([]byte, error) {
	layers, err := i.Layers()
	if err != nil || len(layers) != 1 {
		return nil, fmt.Errorf("not one layer: %w", err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(io.LimitReader(r, 64<<20))
}
