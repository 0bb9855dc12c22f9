// Package roots reads the CAs of the clusters that a rendezvous serves: one
// file <cluster>.pem for each in a directory that may change at any time.
package roots

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
)

const (
	suffix  = ".pem"
	maxFile = 64 << 10
	// maxClusters bounds how many files are read.
	maxClusters = 10_000
)

// Dir is the present content of a directory. Safe for concurrent use.
type Dir struct {
	path string
	log  *slog.Logger

	mu    sync.RWMutex
	files map[string]file // by cluster
}

type file struct {
	changed time.Time
	size    int64
	pool    *x509.CertPool // nil: not usable
}

// Open reads path once. A directory without a usable file is no error: clusters
// may come later. A file that is no CA is left out and named in the log.
func Open(path string, log *slog.Logger) (*Dir, error) {
	d := &Dir{path: path, log: cmp.Or(log, slog.New(slog.DiscardHandler)), files: map[string]file{}}
	if _, err := d.Read(); err != nil {
		return nil, err
	}
	return d, nil
}

// Pool gives the CA of a cluster, nil when there is none.
func (d *Dir) Pool(cluster string) *x509.CertPool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.files[cluster].pool
}

// Clusters names those with a usable CA, sorted.
func (d *Dir) Clusters() []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var names []string
	for name, f := range d.files {
		if f.pool != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Watch reads the directory again every so often until ctx ends, and calls
// changed after each change. A directory that cannot be read stays as it was.
func (d *Dir) Watch(ctx context.Context, every time.Duration, changed func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		did, err := d.Read()
		if err != nil {
			if err.Error() != before {
				d.log.Error("roots not read again", "error", err)
			}
			before = err.Error()
			continue
		}
		before = ""
		if did {
			changed()
		}
	}
}

// Read reads the files that have changed since the last call and reports whether any has.
func (d *Dir) Read() (bool, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return false, fmt.Errorf("read roots: %w", err)
	}
	d.mu.RLock()
	before := maps.Clone(d.files)
	d.mu.RUnlock()
	now := map[string]file{}
	changed := false
	for _, e := range entries {
		cluster, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || strings.HasPrefix(cluster, ".") || len(now) >= maxClusters {
			continue
		}
		info, err := os.Stat(filepath.Join(d.path, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read roots: %w", err)
		}
		if old, ok := before[cluster]; ok && old.size == info.Size() && old.changed.Equal(info.ModTime()) {
			now[cluster] = old
			continue
		}
		changed = true
		f := file{changed: info.ModTime(), size: info.Size()}
		if f.pool, err = d.load(cluster, e.Name()); err != nil {
			d.log.Error("cluster CA not used", "file", e.Name(), "error", err)
		} else {
			d.log.Info("cluster CA read", "cluster", cluster)
		}
		now[cluster] = f
	}
	for cluster := range before {
		if _, ok := now[cluster]; !ok {
			changed = true
			d.log.Info("cluster CA removed", "cluster", cluster)
		}
	}
	d.mu.Lock()
	d.files = now
	d.mu.Unlock()
	return changed, nil
}

func (d *Dir) load(cluster, name string) (*x509.CertPool, error) {
	probe := identity.ID{Cluster: cluster, Group: "g", Slot: "s"}
	if err := probe.Validate(); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(d.path, name))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("longer than %d bytes", maxFile)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("no PEM certificate in it")
	}
	return pool, nil
}
