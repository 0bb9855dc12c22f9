package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cadre.dev/images/internal/oci"
)

// Reproduce builds the images twice and compares: once as Run does, once from a copy of
// the repository in another folder, by another process with another time zone, umask,
// locale and number of processors, and with nothing that Go has compiled before. again is this
// program with the arguments that make it build.
func Reproduce(ctx context.Context, o Options, again func(ctx context.Context, root, out, goCache string) *exec.Cmd) ([]Result, error) {
	o.Fresh = true
	results, err := Run(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Say("building again in another folder, from nothing but locked files")
	other, err := os.MkdirTemp("", "cadre-images-again-")
	if err != nil {
		return nil, fmt.Errorf("make another folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(other) }()
	root := filepath.Join(other, "a folder", "of another name")
	if err := copyTree(o.Root, root); err != nil {
		return nil, err
	}
	out := filepath.Join(other, "images")
	cmd := again(ctx, root, out, filepath.Join(other, "go-build"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the second build: %w\n%s", err, said.Bytes())
	}
	return results, compare(o.Out, out)
}

func compare(first, second string) error {
	a, err := oci.ReadLayout(first)
	if err != nil {
		return err
	}
	b, err := oci.ReadLayout(second)
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range a {
		i := slices.IndexFunc(b, func(y oci.Named) bool { return y.Ref == x.Ref })
		if i < 0 {
			errs = append(errs, fmt.Errorf("%s is not in the second build", x.Ref))
			continue
		}
		if x.Image.Descriptor.Digest != b[i].Image.Descriptor.Digest {
			errs = append(errs, fmt.Errorf("%s is %s, and %s the second time:\n  %s", x.Ref, x.Image.Descriptor.Digest,
				b[i].Image.Descriptor.Digest, strings.Join(oci.Differences(x.Image, b[i].Image), "\n  ")))
			continue
		}
		for j, doc := range x.About {
			if j >= len(b[i].About) || doc.Descriptor.Digest != b[i].About[j].Descriptor.Digest {
				errs = append(errs, fmt.Errorf("%s: its %s differs", x.Ref, doc.Descriptor.ArtifactType))
			}
		}
	}
	return errors.Join(errs...)
}

// results are the products of builds in a repository, and its history.
var results = []string{".git", ".out", ".tools", "bin"}

// copyTree copies the sources of a repository.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("copy the repository: %w", err)
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return fmt.Errorf("copy the repository: %w", err)
		}
		if slices.Contains(results, below) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		at := filepath.Join(to, below)
		switch {
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		case d.Type().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return fmt.Errorf("copy the repository: %w", err)
			}
			return os.WriteFile(at, data, 0o600)
		}
		return nil // links and sockets are no sources
	})
}
