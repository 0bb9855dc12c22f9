// Package collateralcache holds the collateral that this coordinator accepted last as files in
// its state directory, one per family of machines, so that a restart while the
// collateral service is out of reach does not end all admissions (ATT-06).
//
// The files are evidence of nothing. Whoever can write to the disk, or hand back an
// older one, chooses what stands there: what is read is bounded, parsed strictly, and
// judged by the verifier like anything that was fetched.
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
	// maxFiles bounds the folder; families come from verified chains only, and there
	// are some dozens.
	maxFiles = 64
	// retryEvery is how soon a file that could not be written is tried again: the disk
	// of a busy coordinator is not asked at each admission.
	retryEvery = time.Minute
)

// Kept implements collateral.Source. Safe for concurrent use.
type Kept struct {
	dir   string
	check func(collateral.Bundle) error
	now   func() time.Time
	log   *slog.Logger

	mu    sync.Mutex
	files map[string]state // guarded by mu; by family
}

// state is what is known of one file.
type state struct {
	digest [32]byte  // of the content; zero: none that is of use
	failed time.Time // when it could not be written; zero: it could
}

// New keeps collateral in dir, which need not exist. check says whether the
// signatures of a bundle hold: a damaged file is ignored, and one that somebody else
// made as well.
func New(dir string, check func(collateral.Bundle) error, now func() time.Time, log *slog.Logger) *Kept {
	return &Kept{dir: dir, check: check, now: now, log: log, files: map[string]state{}}
}

// form of a family's name, which becomes a file's.
var form = regexp.MustCompile(`^[0-9a-f]{12}$`)

func (k *Kept) path(fmspc string) (string, error) {
	if !form.MatchString(fmspc) {
		return "", fmt.Errorf("fmspc %q is not 12 lower-case hex digits", fmspc)
	}
	return filepath.Join(k.dir, fmspc+".json"), nil
}

// Bundle implements collateral.Source. What it returns may have ended or been
// replaced by newer collateral since.
func (k *Kept) Bundle(_ context.Context, fmspc string) (collateral.Bundle, error) {
	path, err := k.path(fmspc)
	if err != nil {
		return collateral.Bundle{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	b, until, err := k.read(path, fmspc)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return collateral.Bundle{}, fmt.Errorf("no collateral of FMSPC %s was kept", fmspc)
	case err != nil:
		k.log.Warn("kept collateral ignored; the next that is fetched replaces it", "file", path, "error", err)
		return collateral.Bundle{}, fmt.Errorf("read kept collateral: %w", err)
	}
	k.files[fmspc] = state{digest: b.Digest()}
	k.log.Info("kept collateral read", "file", path, "until", until)
	return b, nil
}

func (k *Kept) read(path, fmspc string) (collateral.Bundle, time.Time, error) {
	none := func(err error) (collateral.Bundle, time.Time, error) { return collateral.Bundle{}, time.Time{}, err }
	info, err := os.Lstat(path)
	if err != nil {
		return none(err)
	}
	// Opening a pipe would hold every verification up.
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
		return none(fmt.Errorf("it is of FMSPC %s", of))
	}
	return b, until, k.check(b)
}

// Keep replaces what is kept of the family of accepted, which the verifier has found
// usable. It does nothing when that is what stands there. A file that cannot be
// written refuses nobody's evidence: it is logged and tried again.
func (k *Kept) Keep(accepted *collateral.Set) {
	fmspc, digest := accepted.FMSPC(), accepted.Digest()
	path, err := k.path(fmspc)
	if err != nil {
		return // the verifier accepts no such family
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now, before := k.now(), k.files[fmspc]
	waiting := !before.failed.IsZero() && !now.Before(before.failed) && now.Sub(before.failed) < retryEvery
	if before.digest == digest || waiting {
		return
	}
	if err := k.write(path, accepted.Encoded()); err != nil {
		k.log.Warn("collateral not kept: a restart without the collateral service would admit nobody", "file", path, "error", err)
		k.files[fmspc] = state{failed: now}
		return
	}
	k.files[fmspc] = state{digest: digest}
}

// write replaces path, where there is room for it.
func (k *Kept) write(path string, data []byte) error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	if err := k.room(path); err != nil {
		return err
	}
	return durable.WriteFile(path, data)
}

// room reports whether path may be one more file.
func (k *Kept) room(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	dir, err := os.Open(k.dir)
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // only read
	names, err := dir.Readdirnames(maxFiles)
	if len(names) >= maxFiles {
		return fmt.Errorf("%s has %d files, no more are kept", k.dir, maxFiles)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
