package oci

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// maxDifferences bounds the listed differences of one layer.
const maxDifferences = 20

// Differences lists the differences of two images: configuration, or files of layers.
func Differences(a, b v1.Image) []string {
	layersA, errA := a.Layers()
	layersB, errB := b.Layers()
	if err := errors.Join(errA, errB); err != nil {
		return []string{err.Error()}
	}
	if len(layersA) != len(layersB) {
		return []string{fmt.Sprintf("%d layers, and %d", len(layersA), len(layersB))}
	}
	var all []string
	for i := range layersA {
		x, errX := layersA[i].Digest()
		y, errY := layersB[i].Digest()
		if errX == nil && errY == nil && x == y {
			continue
		}
		all = append(all, fmt.Sprintf("layer %d: %s, and %s", i, x, y))
		all = append(all, filesDiffer(layersA[i], layersB[i])...)
	}
	if len(all) == 0 {
		return []string{"the same layers, and another configuration or manifest"}
	}
	return all
}

func filesDiffer(a, b v1.Layer) []string {
	x, errX := listing(a)
	y, errY := listing(b)
	if err := errors.Join(errX, errY); err != nil {
		return []string{err.Error()}
	}
	var all []string
	for name, line := range x {
		if other, ok := y[name]; !ok {
			all = append(all, name+": only in the first")
		} else if other != line {
			all = append(all, fmt.Sprintf("%s: %s, and %s", name, line, other))
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			all = append(all, name+": only in the second")
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return []string{"the same files; their order or the compressor differs"}
	}
	if more := len(all) - maxDifferences; more > 0 {
		all = append(all[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return all
}

// listing describes each file of a layer in a line.
func listing(l v1.Layer) (map[string]string, error) {
	r, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	all := map[string]string{}
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, in); err != nil { //nolint:gosec // a layer that was just made
			return nil, err
		}
		all[h.Name] = fmt.Sprintf("%s %04o %d:%d %d bytes %q %s %.12x", string(h.Typeflag), h.Mode, h.Uid, h.Gid, h.Size, h.Linkname, h.ModTime.UTC(), sum.Sum(nil))
	}
}
