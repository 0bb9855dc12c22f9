package pooler

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// resumeAllWithin bounds what a new worker does before anything else.
const resumeAllWithin = time.Second

// ResumeAll resumes every PgBouncer below dir, whoever started it. A worker calls it before
// anything else: the one before may have died within a pause. PgBouncers that cannot be
// reached are told as the error; none is fine.
func ResumeAll(ctx context.Context, dir string, log *slog.Logger) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resumeAllWithin, errSilent)
	defer cancel()
	sockets, err := filepath.Glob(filepath.Join(dir, "*", "run", ".s.PGSQL.*"))
	if err != nil {
		return fmt.Errorf("look for poolers: %w", err)
	}
	var (
		all  sync.WaitGroup
		errs = make([]error, len(sockets))
	)
	for i, at := range sockets {
		all.Go(func() {
			began := time.Now()
			c, err := login(ctx, "unix", at, admin, console)
			if err == nil {
				defer c.close()
				err = resume(ctx, c)
			}
			if err != nil {
				errs[i] = fmt.Errorf("resume the pooler at %s: %w", at, err)
				return
			}
			log.Info("a pooler of the worker before is resumed", "route", filepath.Base(filepath.Dir(filepath.Dir(at))), "took", time.Since(began))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// EndOthers ends every PgBouncer below cfg.Dir but those of the routes keep, and removes
// their files: routes that are gone since the worker that started them. Of cfg only what all
// Poolers share is needed.
func EndOthers(cfg Config, keep []string) error {
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for poolers: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || slices.Contains(keep, e.Name()) || !routeName.MatchString(e.Name()) {
			continue
		}
		other := cfg
		other.Route = e.Name()
		errs = append(errs, (&Pooler{cfg: other}).End())
	}
	return errors.Join(errs...)
}
