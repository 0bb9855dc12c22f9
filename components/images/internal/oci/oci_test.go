package oci

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func small(t *testing.T, text string) *Image {
	t.Helper()
	blob, err := Layer(t.TempDir(), func(w io.Writer) error {
		out := tar.NewWriter(w)
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "hello", Size: int64(len(text)), Mode: 0o644}); err != nil {
			return err
		}
		if _, err := out.Write([]byte(text)); err != nil {
			return err
		}
		return out.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	img, err := New(v1.ConfigFile{Architecture: "amd64", OS: "linux", Config: v1.Config{User: "65534:65534"}}, []Blob{blob}, map[string]string{"a": "b"})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func named(t *testing.T, ref, text string) Named {
	t.Helper()
	img := small(t, text)
	about, err := NewArtifact(img.Descriptor, "application/spdx+json", []byte(`{"about":"`+ref+`"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return Named{Ref: ref, Image: img, About: []*Image{about}}
}

// TestCompressorIsPinned fails when another release of the compressor writes other bytes:
// every digest then changes. Pin the old one, or record the new bytes here knowingly.
func TestCompressorIsPinned(t *testing.T) {
	text := strings.Repeat("The same sources give the same bytes. ", 4096)
	blob, err := Layer(t.TempDir(), func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "sha256:c8ada359aa6350c0aeb7bce4acb481591c2cc1d9f4133a5ac783a534a4e74552"
	if got := blob.Descriptor.Digest.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if blob.Raw != int64(len(text)) {
		t.Errorf("raw size %d", blob.Raw)
	}
}

func TestLayoutIsReadAsItIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	if err := WriteLayout(dir, []Named{named(t, "old:1", "old")}); err != nil {
		t.Fatal(err)
	}
	b, a := named(t, "b:1", "bb"), named(t, "a:1", "aa")
	if err := WriteLayout(dir, []Named{b, a}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Ref != "a:1" || got[1].Ref != "b:1" || got[0].Image.Descriptor.Digest != a.Image.Descriptor.Digest {
		t.Fatalf("%+v", got)
	}
	for _, n := range got {
		if err := validate.Image(n.Image); err != nil {
			t.Errorf("%s: %v", n.Ref, err)
		}
		if len(n.About) != 1 {
			t.Fatalf("%s: %d documents", n.Ref, len(n.About))
		}
		if data, err := n.About[0].Data(); err != nil || string(data) != `{"about":"`+n.Ref+`"}` {
			t.Errorf("%s: %s %v", n.Ref, data, err)
		}
	}
	// Nothing of the old layout stays.
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs/sha256"))
	if err != nil || len(blobs) != 2*3+2*2+1 {
		t.Errorf("%d blobs, %v", len(blobs), err)
	}
}

func TestLayoutReplacesNoOtherFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteLayout(dir, nil); err == nil || !strings.Contains(err.Error(), "is no image layout") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis")); err != nil {
		t.Error(err)
	}
}

func TestPushedImagesArePulledByDigest(t *testing.T) {
	s := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	dir := filepath.Join(t.TempDir(), "images")
	if err := WriteLayout(dir, []Named{named(t, "hello:dev", "hello"), named(t, "other:dev", "other")}); err != nil {
		t.Fatal(err)
	}
	images, err := ReadLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := Push(t.Context(), host+"/team/", images, nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(pinned) != 2 || !strings.HasPrefix(pinned[0], host+"/team/hello@sha256:") {
		t.Fatalf("%q", pinned)
	}
	ref, err := name.NewDigest(pinned[0])
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(pulled); err != nil {
		t.Error(err)
	}
	layers, err := pulled.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	in := tar.NewReader(r)
	if _, err := in.Next(); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(in); err != nil || string(data) != "hello" {
		t.Errorf("%q %v", data, err)
	}
	about, err := remote.Referrers(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := about.IndexManifest()
	if err != nil || len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != "application/spdx+json" {
		t.Errorf("referrers: %+v %v", list, err)
	}
}

func TestPushNamesABadPrefix(t *testing.T) {
	_, err := Push(t.Context(), "https://registry.example/Team", []Named{named(t, "a:1", "")}, nil, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "is no place in a registry") {
		t.Errorf("got %v", err)
	}
}

func TestManifests(t *testing.T) {
	n := named(t, "a:1", "text")
	for _, img := range []*Image{n.Image, n.About[0]} {
		raw, err := img.RawManifest()
		if err != nil {
			t.Fatal(err)
		}
		digest, size, err := v1.SHA256(bytes.NewReader(raw))
		if err != nil || digest != img.Descriptor.Digest || size != img.Descriptor.Size {
			t.Errorf("%s %d, want %+v", digest, size, img.Descriptor)
		}
	}
	raw, err := n.About[0].RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	if m.Subject == nil || m.Subject.Digest != n.Image.Descriptor.Digest || m.ArtifactType != "application/spdx+json" || m.Config.MediaType != m.ArtifactType ||
		m.MediaType != types.OCIManifestSchema1 {
		t.Errorf("%s", raw)
	}
}

func TestDifferencesNameFiles(t *testing.T) {
	got := strings.Join(Differences(small(t, "one"), small(t, "two")), "\n")
	if !strings.Contains(got, "hello: 0 0644 0:0 3 bytes") {
		t.Errorf("got %s", got)
	}
}
