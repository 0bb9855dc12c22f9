package imagestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/rootfs"
)

// Store keeps unpacked images. Safe for concurrent use, also by several processes.
type Store struct {
	dir    string
	host   string
	limits rootfs.Limits
	// Transport carries the pulls.
	transport http.RoundTripper
	log       *slog.Logger
	// boot names this run of the machine.
	boot     string
	flushing sync.WaitGroup
}

// Config of a Store.
type Config struct {
	// Dir holds the unpacked images; it is made.
	Dir string
	// Registry is the host:port from which images are pulled, for references to any registry: the
	// digest identifies the image.
	Registry string
	// Limits of one image; the zero value takes the default.
	Limits rootfs.Limits
	// Transport carries the pulls; nil: one of its own.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Close waits until the unpacked images are on the disk.
func (s *Store) Close() { s.flushing.Wait() }

// Open makes the folder and removes the remains of an interrupted unpacking.
func Open(c Config) (*Store, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make image store: %w", err)
	}
	s := &Store{dir: c.Dir, host: c.Registry, limits: c.Limits, transport: c.Transport, log: c.Log}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("clean up the image store: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("identify this start of the machine: %w", err)
	}
	s.boot = strings.TrimSpace(string(boot))
	if s.limits == (rootfs.Limits{}) {
		s.limits = rootfs.DefaultLimits
	}
	if s.transport == nil {
		s.transport = &http.Transport{ResponseHeaderTimeout: 30 * time.Second, DisableCompression: true}
	}
	return s, nil
}

// sweep removes the unfinished images of dead processes, and their locks.
func (s *Store) sweep() error {
	for _, prefix := range []string{unfinished, lockPrefix} {
		left, err := filepath.Glob(filepath.Join(s.dir, prefix+"*"))
		if err != nil {
			return err
		}
		for _, at := range left {
			hex := strings.TrimPrefix(filepath.Base(at), prefix)
			release, err := s.tryLock(hex)
			if errors.Is(err, errLocked) {
				continue // its process lives
			}
			if err == nil {
				err = os.RemoveAll(s.unfinished(hex))
				release()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// unfinished is the temporary folder of an image, for the holder of its lock.
func (s *Store) unfinished(hex string) string { return filepath.Join(s.dir, unfinished+hex) }

const (
	unfinished = ".new-"
	recordFile = "image.json"
	rootDir    = "root"
	maxRecord  = 4 << 20
	// flushedFile says that a power cut leaves the image whole. Without it an image is
	// good while the machine runs that unpacked it.
	flushedFile = "flushed"
)

// Ensure returns the unpacked image of a reference with a digest, pulling it first when
// it is not there. The error names the reference and a way out.
func (s *Store) Ensure(ctx context.Context, reference string) (images.Unpacked, error) {
	ref, digest, err := parse(reference)
	if err != nil {
		return images.Unpacked{}, err
	}
	if img, err := s.load(digest); err == nil {
		return img, nil
	}
	release, err := s.lock(ctx, digest.Hex)
	if err != nil {
		return images.Unpacked{}, fmt.Errorf("image %q: %w", reference, err)
	}
	defer release()
	img, err := s.load(digest)
	if err == nil {
		return img, nil // another was quicker
	}
	if err := s.remove(digest); err != nil {
		return images.Unpacked{}, fmt.Errorf("image %q: remove what a power cut may have left half of: %w", reference, err)
	}
	began := time.Now()
	if err := s.pull(ctx, ref, digest); err != nil {
		return images.Unpacked{}, fmt.Errorf("image %q: %w", reference, err)
	}
	s.log.Info("image unpacked", "image", reference, "took", time.Since(began).Round(time.Millisecond))
	return s.load(digest)
}

// Has reports whether the image of a reference is unpacked or can be pulled. A reference without a
// digest has no image here. An error means that the answer is unknown.
func (s *Store) Has(ctx context.Context, reference string) (bool, error) {
	if !strings.Contains(reference, "@") {
		return false, nil
	}
	ref, digest, err := parse(reference)
	if err != nil {
		return false, err
	}
	if _, err := s.load(digest); err == nil {
		return true, nil
	}
	_, err = s.find(ctx, ref)
	if errors.Is(err, errUnknown) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("image %q: %w", reference, err)
	}
	return true, nil
}

// parse takes references by digest alone.
func parse(reference string) (name.Digest, v1.Hash, error) {
	if !strings.Contains(reference, "@") {
		return name.Digest{}, v1.Hash{}, fmt.Errorf("image %q has no digest, and a tag can be moved: pin it (`cadre compose pin`)", reference)
	}
	ref, err := name.NewDigest(reference)
	if err != nil {
		return name.Digest{}, v1.Hash{}, fmt.Errorf("image %q: %w", reference, err)
	}
	digest, err := v1.NewHash(ref.DigestStr())
	if err != nil || digest.Algorithm != "sha256" {
		return name.Digest{}, v1.Hash{}, fmt.Errorf("image %q: only sha256 digests are taken", reference)
	}
	return ref, digest, nil
}

// remove empties the image's places, under its lock. It renames them first, so that no process
// finds a half-removed image.
func (s *Store) remove(digest v1.Hash) error {
	if err := os.RemoveAll(s.unfinished(digest.Hex)); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(s.dir, digest.Hex), s.unfinished(digest.Hex))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.RemoveAll(s.unfinished(digest.Hex)))
}

// record is image.json.
type record struct {
	Digest string        `json:"digest"`
	Boot   string        `json:"boot"`
	Image  images.Stored `json:"image"`
}

// load returns an image that is unpacked and whole.
func (s *Store) load(digest v1.Hash) (images.Unpacked, error) {
	dir := filepath.Join(s.dir, digest.Hex)
	f, err := os.Open(filepath.Join(dir, recordFile))
	if err != nil {
		return images.Unpacked{}, err
	}
	defer f.Close()
	var r record
	err = json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&r)
	_, unsure := os.Stat(filepath.Join(dir, flushedFile))
	if err == nil && r.Digest == digest.String() && (unsure == nil || r.Boot == s.boot) {
		return images.Unpacked{Stored: r.Image, Root: filepath.Join(dir, rootDir)}, nil
	}
	return images.Unpacked{}, fmt.Errorf("image store: %s is not what it should be: %w", dir, fs.ErrNotExist)
}
