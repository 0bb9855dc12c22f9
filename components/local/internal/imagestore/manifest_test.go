package imagestore

import (
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"cadre.dev/local/internal/imagetest"
)

// TestAManifestOfAnOldKindIsRefused: those are signed inside, and a library that knows them
// does not compare their bytes to the digest.
func TestAManifestOfAnOldKindIsRefused(t *testing.T) {
	for _, kind := range []string{"application/vnd.docker.distribution.manifest.v1+prettyjws", "application/vnd.docker.distribution.manifest.v1+json", "text/plain"} {
		t.Run(kind, func(t *testing.T) {
			s := newSite(t)
			img, evil := small(t, "hello"), small(t, "evil")
			child, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			index := addIndex(t, s.layout, "cadre-app:1", img)
			imagetest.Add(t, s.layout, "cadre-app:2", evil)
			if _, err := s.store(t, func(c *Config) { c.Dir = t.TempDir() }).Ensure(t.Context(), "cadre-app@"+index); err != nil {
				t.Fatalf("an index of the right kind: %v", err)
			}
			raw, err := evil.RawManifest()
			if err != nil {
				t.Fatal(err)
			}
			s.kinds = map[string]string{child.String(): kind}
			s.spoil = func(path string, body []byte) []byte {
				if strings.HasSuffix(path, "/manifests/"+child.String()) {
					return raw
				}
				return body
			}
			got, err := s.store(t).Ensure(t.Context(), "cadre-app@"+index)
			if err == nil || !strings.Contains(err.Error(), kind) {
				t.Errorf("another image stands for it: %+v, %v", got, err)
			}
			s.empty(t)
		})
	}
}

// addIndex puts an index of one image into the layout.
func addIndex(t *testing.T, dir, ref string, img v1.Image) string {
	t.Helper()
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	at, err := layout.FromPath(dir)
	if err != nil {
		at, err = layout.Write(dir, empty.Index)
	}
	if err == nil {
		err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref}))
	}
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}
