package imagestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"cadre.dev/local/internal/become"
	"cadre.dev/local/internal/rootfs"
)

const (
	maxManifest = 4 << 20
	maxConfig   = 4 << 20
	maxLayers   = 128
)

// pull unpacks an image into a temporary folder, and moves it to its empty place when it is whole.
// The caller holds its lock.
func (s *Store) pull(ctx context.Context, ref name.Digest, digest v1.Hash) (err error) {
	img, err := s.find(ctx, ref)
	if err != nil {
		return err
	}
	config, err := checked(img)
	if err != nil {
		return err
	}
	stored, err := storedOf(config)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(record{Digest: digest.String(), Boot: s.boot, Image: stored})
	if err != nil {
		return fmt.Errorf("encode %s: %w", recordFile, err)
	}
	if len(raw) > maxRecord {
		return fmt.Errorf("its settings take %d bytes; at most %d are kept: give it fewer variables, or shorter ones", len(raw), maxRecord)
	}
	dir := s.unfinished(digest.Hex)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make a folder in the image store: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := s.unpack(img, config, filepath.Join(dir, rootDir)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, recordFile), raw, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", recordFile, err)
	}
	if err := os.Rename(dir, filepath.Join(s.dir, digest.Hex)); err != nil {
		return err
	}
	s.flushing.Go(func() { s.flush(digest) })
	return nil
}

// flush puts an image on the disk, which can take seconds, and then says so.
func (s *Store) flush(digest v1.Hash) {
	dir := filepath.Join(s.dir, digest.Hex)
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, flushedFile), nil, 0o600)
	}
	if err != nil {
		s.log.Warn("image not flushed; it is pulled again after a restart of this machine", "image", digest.String(), "error", err)
	}
}

// find asks the registry for the digest, under the reference's name and then without the name's
// first parts: a push may have added a prefix.
func (s *Store) find(ctx context.Context, ref name.Digest) (v1.Image, error) {
	if s.host == "" {
		return nil, fmt.Errorf("%w: this cloud serves no images; start it with --layout", errUnknown)
	}
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(bounded{s.transport}),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}
	parts := strings.Split(strings.TrimPrefix(ref.RepositoryStr(), "library/"), "/")
	for i := range parts {
		at, err := name.NewDigest(s.host+"/"+strings.Join(parts[i:], "/")+"@"+ref.DigestStr(), name.Insecure)
		if err != nil {
			continue // the rest is no valid name
		}
		found, err := remote.Get(at, options...)
		var refused *transport.Error
		if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("pull: %w", err)
		}
		img, err := found.Image()
		if err != nil {
			return nil, fmt.Errorf("pull: no image for linux/%s: %w", runtime.GOARCH, err)
		}
		return img, nil
	}
	return nil, fmt.Errorf("%w: the local registry %s has no image of that digest under any of its names: build it (`make images`) or add it to the layout", errUnknown, s.host)
}

// errUnknown: the registry says that there is no such image.
var errUnknown = errors.New("no such image")

// checked returns the config of an image whose manifest stays within bounds.
func checked(img v1.Image) (*v1.ConfigFile, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, fmt.Errorf("pull manifest: %w", err)
	}
	if len(manifest.Layers) > maxLayers {
		return nil, fmt.Errorf("it has %d layers; at most %d are taken", len(manifest.Layers), maxLayers)
	}
	for i, layer := range manifest.Layers {
		if len(layer.URLs) > 0 || layer.Size < 0 {
			// The library would fetch the layer from there, and does not check a negative size.
			return nil, fmt.Errorf("layer %d lies elsewhere than in the registry", i+1)
		}
	}
	if manifest.Config.Size > maxConfig || manifest.Config.Size < 0 {
		return nil, fmt.Errorf("its config is larger than %d bytes", maxConfig)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("pull config: %w", err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("it is for %s/%s; CVMs here are linux/%s", config.OS, config.Architecture, runtime.GOARCH)
	}
	if len(config.RootFS.DiffIDs) != len(manifest.Layers) {
		return nil, fmt.Errorf("its config names %d layers, its manifest %d", len(config.RootFS.DiffIDs), len(manifest.Layers))
	}
	return config, nil
}

func (s *Store) unpack(img v1.Image, config *v1.ConfigFile, dir string) error {
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("pull layers: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the root directory of services, which every user enters
		return fmt.Errorf("make root: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as above, for any umask
		return fmt.Errorf("make root: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open root: %w", err)
	}
	defer root.Close()
	u := rootfs.NewUnpacker(root, s.limits)
	for i, layer := range layers {
		if err := unpackLayer(u, layer, config.RootFS.DiffIDs[i], s.limits); err != nil {
			return fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	if _, err := root.Lstat(strings.TrimPrefix(become.Path, "/")); err == nil {
		// A link of that name would be run in its place, with more rights than the service has.
		return fmt.Errorf("it has a file %s, which is the local cloud's", become.Path)
	}
	return nil
}

// unpackLayer applies one layer and then verifies its hash. With a wrong hash it discards the
// layer's files.
func unpackLayer(u *rootfs.Unpacker, layer v1.Layer, want v1.Hash, limits rootfs.Limits) (err error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	sum := sha256.New()
	// Headers and padding are bounded too, by the need of so many entries.
	bounded := io.LimitReader(content, limits.Bytes+int64(limits.Entries)*4096+1)
	read := io.TeeReader(bounded, sum)
	if err := u.Layer(read); err != nil {
		return err
	}
	// Bytes after the archive's end belong to the layer.
	if _, err := io.Copy(io.Discard, read); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("its content is sha256:%s, and %s in the image's config", got, want)
	}
	return nil
}

// bounded limits the size of a registry's manifests and errors, and the kinds to those with a
// digest of their bytes. Blobs are bounded by their sizes in the manifest.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	// Anything else the library may take without comparing its bytes to the digest, as it
	// does with the signed manifests of old.
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if strings.Contains(req.URL.Path, "/manifests/") && resp.StatusCode == http.StatusOK && !slices.Contains(manifestTypes, types.MediaType(kind)) {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the registry's manifest is of type %.100q; OCI images and those of Docker's schema 2 are taken", kind)
	}
	if !strings.Contains(req.URL.Path, "/blobs/") {
		resp.Body = &capped{ReadCloser: resp.Body, left: maxManifest}
	}
	return resp, nil
}

var manifestTypes = []types.MediaType{types.OCIManifestSchema1, types.DockerManifestSchema2, types.OCIImageIndex, types.DockerManifestList}

type capped struct {
	io.ReadCloser
	left int
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the registry's answer is larger than %d bytes", maxManifest)
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
