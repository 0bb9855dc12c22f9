package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// followPoll is how often the agent's names are read where the kernel cannot report changes.
	followPoll = time.Second
	// followRetry is how long names that could not be written wait.
	followRetry = 30 * time.Second
)

// follower keeps the container's hosts file as the agent's is.
type follower struct {
	from, to string
	// said is the last logged problem, so that each problem is logged once.
	said string
}

// follow writes the names now and after each change, until this process ends. It logs a failure and
// continues: a workload without names is better than none.
func follow(cfg Config) {
	if cfg.Hosts == "" {
		return
	}
	f := &follower{from: filepath.Join(cfg.ServiceMesh, "hosts"), to: cfg.Hosts}
	// Before the first look, so that no change is missed between the two.
	changes := watch(cfg.ServiceMesh)
	f.update()
	go func() {
		for {
			var again <-chan time.Time
			switch {
			case changes == nil:
				again = time.After(followPoll)
			case f.said != "":
				again = time.After(followRetry)
			}
			select {
			case <-changes:
			case <-again:
			}
			f.update()
		}
	}()
}

func (f *follower) update() {
	names, err := readFile(f.from)
	if err == nil {
		err = write(f.to, entriesOf(names))
	}
	if err == nil {
		f.said = ""
		return
	}
	if text := err.Error() + wayOut(err); text != f.said {
		f.said = text
		_ = fail(0, fmt.Errorf("%s lacks names of Peers and routes: %s", f.to, text))
	}
}

// wayOut names the remedy in the compose file.
func wayOut(err error) string {
	switch {
	case errors.Is(err, syscall.EROFS):
		return "; a service with read_only: true cannot have them"
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("; this is user %d: start the service as root (user: \"0:0\") and name its user with --user before --", os.Geteuid())
	}
	return ""
}

// watch reports changes in the agent's folder; a watch of one file would miss its replacement. It
// is nil if the kernel has no watch left for this user.
func watch(dir string) <-chan struct{} {
	events, err := inotify(dir)
	if err != nil {
		return nil
	}
	changed := make(chan struct{}, 1)
	go func() {
		// The event's content is ignored: every event, even a lost one, causes a look.
		buffer := make([]byte, 4096)
		for {
			if _, err := events.Read(buffer); err != nil {
				return
			}
			select {
			case changed <- struct{}{}:
			default: // a look is due already
			}
		}
	}()
	return changed
}

func inotify(dir string) (*os.File, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_MOVED_TO|syscall.IN_CLOSE_WRITE); err != nil {
		return nil, errors.Join(err, events.Close())
	}
	return events, nil
}
