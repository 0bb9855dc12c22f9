package imagestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockPrefix = ".lock-"
	// lockPause is the pause between tries for a held lock.
	lockPause = 20 * time.Millisecond
)

// errLocked: another process works on that image.
var errLocked = errors.New("locked by another process")

// lock waits until no other goroutine or process unpacks or removes the image. The kernel releases
// the lock when its holder dies.
func (s *Store) lock(ctx context.Context, hex string) (release func(), err error) {
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for {
		release, err := s.tryLock(hex)
		if !errors.Is(err, errLocked) {
			return release, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the process that unpacks it: %w", context.Cause(ctx))
		}
	}
}

// tryLock is lock without waiting.
func (s *Store) tryLock(hex string) (release func(), err error) {
	path := filepath.Join(s.dir, lockPrefix+hex)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock in the image store: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		err = errLocked
	}
	if err == nil && !isAt(f, path) {
		err = errLocked // its holder has removed it; the next look finds the new one
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		// Removed while it is held, so that no process can hold a file that is about to be removed.
		_ = os.Remove(path)
		_ = f.Close()
	}, nil
}

func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
