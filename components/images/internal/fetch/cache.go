package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// parallel is how many files are fetched at one time.
	parallel = 6
	// patience is how long one file may take from one place.
	patience = 10 * time.Minute
)

// Cache is a folder of files by their SHA-256. Any number of processes may share it.
type Cache struct {
	dir    string
	client *http.Client
}

// Open makes the folder when it is not there.
func Open(dir string) (*Cache, error) {
	if err := os.MkdirAll(filepath.Join(dir, "sha256"), 0o755); err != nil { //nolint:gosec // public files
		return nil, fmt.Errorf("make the cache: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck,forcetypeassert // the default one is of this type
	transport.ResponseHeaderTimeout = time.Minute
	return &Cache{dir: dir, client: &http.Client{Transport: transport}}, nil
}

// Item is a file that is wanted.
type Item struct {
	// Name and Where (a line of a lock) are for messages.
	Name, Where string
	// SHA256 is in hex.
	SHA256 string
	// Size is in bytes; 0 is unknown.
	Size int64
	// From lists places that may have it, asked in this order: URLs, or files.
	From func(context.Context) ([]string, error)
	// Help is the way out when no place has it.
	Help string
}

// credentials are the credentials of a URL anywhere in a text.
var credentials = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"'<>]*@`)

// Redact takes names and passwords out of the URLs of a text for people.
func Redact(text string) string { return credentials.ReplaceAllString(text, "${1}…@") }

// Path is where the file of that digest is, once it is there.
func (c *Cache) Path(digest string) string { return filepath.Join(c.dir, "sha256", digest) }

// Has reports whether the file is there, whole.
func (c *Cache) Has(digest string) bool {
	sum, _, err := Digest(c.Path(digest))
	return err == nil && sum == digest
}

// Check compares the size of a file that is there to that of its lock.
func (c *Cache) Check(digest string, size int64) error {
	info, err := os.Stat(c.Path(digest))
	if err != nil {
		return err
	}
	if info.Size() != size {
		return fmt.Errorf("it has %d bytes, and the lock says %d: one of digest and size there is wrong", info.Size(), size)
	}
	return nil
}

// Digest is the SHA-256 of a file in hex, and its size in bytes.
func Digest(name string) (string, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), n, err
}

// Ensure fetches missing files, several at one time, and reports its steps with say. It reads
// present files again: a file that was cut or changed is fetched again.
func (c *Cache) Ensure(ctx context.Context, items []Item, say func(string)) error {
	if err := c.provide(ctx, items, say); err != nil {
		return err
	}
	var errs []error
	for _, item := range items {
		if item.Size == 0 {
			continue
		}
		if err := c.Check(item.SHA256, item.Size); err != nil {
			errs = append(errs, fmt.Errorf("%s (%s): %w", item.Name, item.Where, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Cache) provide(ctx context.Context, items []Item, say func(string)) error {
	missing, total := c.missing(items)
	if len(missing) == 0 {
		return nil
	}
	say(fmt.Sprintf("fetching %d files, %.1f MB", len(missing), float64(total)/1e6))
	var files, bytes atomic.Int64
	watch, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-watch.Done():
				return
			case <-tick.C:
				say(fmt.Sprintf("  %d of %d files, %.1f of %.1f MB", files.Load(), len(missing), float64(bytes.Load())/1e6, float64(total)/1e6))
			}
		}
	}()
	group := errgroup.Group{}
	group.SetLimit(parallel)
	errs := make([]error, len(missing))
	for i, item := range missing {
		group.Go(func() error {
			errs[i] = c.fetch(ctx, item, &bytes)
			files.Add(1)
			return nil
		})
	}
	_ = group.Wait() // errors are kept, so that all of them are reported
	return errors.Join(errs...)
}

func (c *Cache) missing(items []Item) (missing []Item, total int64) {
	seen := map[string]bool{}
	for _, item := range items {
		if seen[item.SHA256] || c.Has(item.SHA256) {
			continue
		}
		seen[item.SHA256] = true
		missing, total = append(missing, item), total+item.Size
	}
	return missing, total
}

// fetch asks one place after the other.
func (c *Cache) fetch(ctx context.Context, item Item, count *atomic.Int64) error {
	places, err := item.From(ctx)
	errs := []error{err}
	for _, place := range places {
		err := c.from(ctx, item, place, count)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, fmt.Errorf("%s: %w", Redact(place), err))
	}
	return fmt.Errorf("%s (%s) cannot be had:\n%w\n%s", item.Name, item.Where, errors.Join(errs...), item.Help)
}

func (c *Cache) from(ctx context.Context, item Item, place string, count *atomic.Int64) error {
	ctx, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not there after %s", patience))
	defer stop()
	body, err := c.open(ctx, place)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	size := item.Size
	if size == 0 {
		size = 1 << 30
	}
	_, err = c.Store(&counting{io.LimitReader(body, size+1), count}, item.SHA256)
	return err
}

func (c *Cache) open(ctx context.Context, place string) (io.ReadCloser, error) {
	if !strings.Contains(place, "://") {
		return os.Open(place)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, err
	}
	reply, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	if reply.StatusCode != http.StatusOK {
		_ = reply.Body.Close()
		return nil, errors.New(reply.Status)
	}
	return reply.Body, nil
}

// Store keeps the data that it reads when the data has the digest; with an empty digest, any data.
// It returns the digest.
func (c *Cache) Store(r io.Reader, digest string) (string, error) {
	f, err := os.CreateTemp(c.dir, ".new-*")
	if err != nil {
		return "", fmt.Errorf("write to the cache: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), r)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return "", err
	}
	got := hex.EncodeToString(sum.Sum(nil))
	if digest != "" && got != digest {
		return "", fmt.Errorf("its SHA-256 is %s, not the locked %s", got, digest)
	}
	if err := os.Rename(f.Name(), c.Path(got)); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return got, nil
}

type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}
