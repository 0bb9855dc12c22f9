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

// resumeAllWithin bounds the first step of a new worker.
const resumeAllWithin = time.Second

// ResumeAll resumes every PgBouncer below dir, including those of an earlier worker. A worker calls
// it before any other work: the previous worker may have died within a pause. The error lists
// unreachable PgBouncers; it is nil if there are no PgBouncers.
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
			log.Info("a pooler of the previous worker is resumed", "route", filepath.Base(filepath.Dir(filepath.Dir(at))), "took", time.Since(began))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// EndOthers ends every PgBouncer below cfg.Dir except those of the routes keep, and removes their
// files: these routes were removed since the previous worker. EndOthers uses only the fields of cfg
// that all Poolers share.
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
