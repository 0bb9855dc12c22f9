package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// retryEvery is how often a disk that refused is tried again.
const retryEvery = 10 * time.Second

// Disk is a folder of small files whose newest content is in memory too, with its owners. A failed
// write, to a full or read-only file system, is a fault: Disk reports it while it lasts, and
// repeats the write until it succeeds. Safe for concurrent use.
type Disk struct {
	dir   string
	log   *slog.Logger
	write func(path string, data []byte) error
	read  func(path string, limit int64) (data []byte, exists bool, err error)

	// writing counts the writes under way.
	writing atomic.Int64

	mu     sync.Mutex
	behind map[string]behind // guarded by mu; by file name
}

// behind is a file whose newest content is not on the disk.
type behind struct {
	data []byte
	why  error
}

// OpenDisk is the folder dir, which must exist.
func OpenDisk(dir string, log *slog.Logger) *Disk {
	return &Disk{
		dir: dir, log: log, behind: map[string]behind{},
		write: func(path string, data []byte) error { return WriteFile(path, data, 0o600) },
		read:  ReadFile,
	}
}

// Path of a file.
func (d *Disk) Path(name string) string { return filepath.Join(d.dir, name) }

// Read decodes name into v and reports whether the file exists, as ReadJSON does.
func (d *Disk) Read(name string, limit int64, v any) (bool, error) {
	return decode(d.Path(name), limit, v, d.read)
}

// Put writes v as name. After an error the disk has the old content, and the new one is
// written as soon as it can be.
func (d *Disk) Put(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", d.Path(name), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.put(name, append(data, '\n'))
}

// put is called under the lock, so that an older content never follows a newer one.
func (d *Disk) put(name string, data []byte) error {
	d.writing.Add(1)
	err := d.write(d.Path(name), data)
	d.writing.Add(-1)
	_, was := d.behind[name]
	switch {
	case err != nil:
		d.behind[name] = behind{data: data, why: err}
		if !was {
			d.log.Error("the disk rejects writes, its newest content is only in memory", "error", err)
		}
	case was:
		delete(d.behind, name)
		d.log.Info("the disk accepts writes again", "file", d.Path(name))
	}
	return err
}

// Writing reports that a write is in progress. While a write hangs on a stalled disk, callers of
// Put wait for it, and so do their own callers.
func (d *Disk) Writing() bool { return d.writing.Load() > 0 }

// Faults lists the files that are not on the disk with the reasons, in the order of their names.
func (d *Disk) Faults() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.behind)) {
		out = append(out, "the disk rejects writes, a restart would lose the content that is only in memory: "+cause(d.behind[name].why, d.Path(name)))
	}
	return out
}

// cause is the innermost error: the outer ones name a temporary file.
func cause(err error, path string) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return path + ": " + err.Error()
}

// Run repeats failed writes until ctx ends.
func (d *Disk) Run(ctx context.Context) error {
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.retry()
		}
	}
}

func (d *Disk) retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d.behind)) {
		_ = d.put(name, d.behind[name].data) // still reported as a fault
	}
}
