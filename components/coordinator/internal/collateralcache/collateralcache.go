// Package collateralcache stores the last accepted collateral in this coordinator's state
// directory, one file per family of machines. Admissions thus survive a restart while the
// collateral service is unreachable (ATT-06).
//
// The files are no evidence. A writer of the disk, or a host that restores an older disk, controls
// their content. The content is therefore bounded, parsed strictly, and judged by the verifier like
// fetched collateral.
package collateralcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"cadre.dev/attest/collateral"
	"cadre.dev/coordinator/internal/durable"
)

const (
	// maxFiles bounds the folder; families come from verified chains only, and there are some
	// dozens.
	maxFiles = 64
	// retryEvery is the retry delay after a failed write: admissions must not retry the disk each
	// time.
	retryEvery = time.Minute
)

// Cache implements collateral.Source. Safe for concurrent use.
type Cache struct {
	dir   string
	check func(collateral.Bundle) error
	now   func() time.Time
	log   *slog.Logger

	mu    sync.Mutex
	files map[string]state // guarded by mu; by family
}

// state is the known state of one file.
type state struct {
	digest [32]byte  // of the content; zero: no usable file
	failed time.Time // time of the failed write; zero: it did not fail
}

// New returns a cache in dir, which need not exist. check verifies the signatures of a bundle: a
// damaged or forged file is ignored.
func New(dir string, check func(collateral.Bundle) error, now func() time.Time, log *slog.Logger) *Cache {
	return &Cache{dir: dir, check: check, now: now, log: log, files: map[string]state{}}
}

// form of a family's name, which becomes a file's.
var form = regexp.MustCompile(`^[0-9a-f]{12}$`)

func (c *Cache) path(fmspc string) (string, error) {
	if !form.MatchString(fmspc) {
		return "", fmt.Errorf("fmspc %q is not 12 lower-case hex digits", fmspc)
	}
	return filepath.Join(c.dir, fmspc+".json"), nil
}

// Bundle implements collateral.Source. Its result may have expired, and newer collateral may exist.
func (c *Cache) Bundle(_ context.Context, fmspc string) (collateral.Bundle, error) {
	path, err := c.path(fmspc)
	if err != nil {
		return collateral.Bundle{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, until, err := c.read(path, fmspc)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return collateral.Bundle{}, fmt.Errorf("no collateral of FMSPC %s is cached", fmspc)
	case err != nil:
		c.log.Warn("cached collateral ignored; the next fetch replaces it", "file", path, "error", err)
		return collateral.Bundle{}, fmt.Errorf("read cached collateral: %w", err)
	}
	c.files[fmspc] = state{digest: b.Digest()}
	c.log.Info("cached collateral read", "file", path, "until", until)
	return b, nil
}

func (c *Cache) read(path, fmspc string) (collateral.Bundle, time.Time, error) {
	none := func(err error) (collateral.Bundle, time.Time, error) { return collateral.Bundle{}, time.Time{}, err }
	info, err := os.Lstat(path)
	if err != nil {
		return none(err)
	}
	// Opening a pipe would block every verification.
	if !info.Mode().IsRegular() {
		return none(errors.New("it is not a regular file"))
	}
	file, err := os.Open(path)
	if err != nil {
		return none(err)
	}
	defer file.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(file, collateral.MaxBundleSize+1))
	if err != nil {
		return none(err)
	}
	b, err := collateral.ParseBundle(data) // bounds the size first
	if err != nil {
		return none(err)
	}
	of, until, err := b.Claims()
	if err != nil {
		return none(err)
	}
	if of != fmspc {
		return none(fmt.Errorf("the file has FMSPC %s", of))
	}
	return b, until, c.check(b)
}

// Put replaces the stored collateral of the family of accepted, which the verifier has accepted.
// Put does nothing if the content is the same. A failed write does not refuse the evidence: it is
// logged and retried.
func (c *Cache) Put(accepted *collateral.Set) {
	fmspc, digest := accepted.FMSPC(), accepted.Digest()
	path, err := c.path(fmspc)
	if err != nil {
		return // the verifier accepts no such family
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, before := c.now(), c.files[fmspc]
	waiting := !before.failed.IsZero() && !now.Before(before.failed) && now.Sub(before.failed) < retryEvery
	if before.digest == digest || waiting {
		return
	}
	if err := c.write(path, accepted.Encoded()); err != nil {
		c.log.Warn("collateral not cached: after a restart without the collateral service all admissions would fail", "file", path, "error", err)
		c.files[fmspc] = state{failed: now}
		return
	}
	c.files[fmspc] = state{digest: digest}
}

// write replaces path, if there is room for it.
func (c *Cache) write(path string, data []byte) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := c.room(path); err != nil {
		return err
	}
	return durable.WriteFile(path, data)
}

// room reports whether path may be one more file.
func (c *Cache) room(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	dir, err := os.Open(c.dir)
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // only read
	names, err := dir.Readdirnames(maxFiles)
	if len(names) >= maxFiles {
		return fmt.Errorf("%s has %d files, which is the maximum", c.dir, maxFiles)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
