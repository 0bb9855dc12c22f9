// Package imagetest makes small container images for tests.
package imagetest

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Entry is one entry of a layer: a header without Size, and the content.
type Entry struct {
	tar.Header
	Content []byte
}

// File is a regular file; Dir, Link and Hard are a directory, a symlink and a hard link.
func File(name string, mode int64, content string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, []byte(content)}
}

// Dir is a directory.
func Dir(name string, mode int64, uid, gid int) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: uid, Gid: gid}}
}

// Link is a symlink.
func Link(name, target string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}}
}

// Hard is a hard link.
func Hard(name, target string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}}
}

// Owned is e with another owner.
func Owned(e Entry, uid, gid int) Entry {
	e.Uid, e.Gid = uid, gid
	return e
}

// Archive is the uncompressed layer.
func Archive(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.Content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Image has one layer for each archive and this configuration, for linux and this
// processor.
func Image(t testing.TB, config v1.Config, archives ...[]byte) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, Config: config, RootFS: v1.RootFS{Type: "layers"}})
	for _, raw := range archives {
		if err != nil {
			break
		}
		var layer v1.Layer
		layer, err = tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
		if err == nil {
			img, err = mutate.AppendLayers(img, layer)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// Add puts an image into the layout folder as "name:tag" and returns its digest.
func Add(t testing.TB, dir, ref string, img v1.Image) string {
	t.Helper()
	path, err := layout.FromPath(dir)
	if err != nil {
		path, err = layout.Write(dir, empty.Index)
	}
	if err == nil {
		err = path.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref}))
	}
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// Static builds the Go program of the folder pkg without C and returns its path, in a
// folder that users may enter.
func Static(t testing.TB, pkg, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	return out
}
