// Package bundle writes an archive about a cluster for its support: parts, which are made at the same
// time, and an index that has each part with its size or its error. Known secrets are removed from
// every part.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxPart bounds one part, and maxTotal all parts together.
	maxPart  = 16 << 20
	maxTotal = 256 << 20
	// atOnce is how many parts are made at the same time.
	atOnce = 8
	// IndexName is the path of the index in the archive.
	IndexName = "index.json"
)

// Part is one file of the archive.
type Part struct {
	// Path in the archive, with slashes.
	Path string
	// Make returns the content: []byte as it is, another value as JSON. With an error, a content that
	// is not nil is kept.
	Make func(ctx context.Context) (any, error)
}

// Entry is a part in the index.
type Entry struct {
	Path string `json:"path"`
	// Bytes of the file; 0: there is no file.
	Bytes int `json:"bytes"`
	// Error is why there is no file, or why it is incomplete.
	Error string `json:"error,omitempty"`
	// Removed counts the places from which a known secret was removed.
	Removed int `json:"removed,omitempty"`
}

// Index is the first file of the archive, and the form of -o json.
type Index struct {
	Cluster string    `json:"cluster"`
	At      time.Time `json:"at"`
	// Version of the program that wrote the archive.
	Version string  `json:"version"`
	Parts   []Entry `json:"parts"`
}

// Errors counts the parts with an error.
func (x Index) Errors() (n int) {
	for _, e := range x.Parts {
		if e.Error != "" {
			n++
		}
	}
	return n
}

// file is a part as it is in the archive.
type file struct {
	entry   Entry
	content []byte
}

// Write makes all parts and writes them to a new file of mode 0600. A part that fails leaves the
// others, and so does a part that is not made within limit. Write refuses a path that exists.
func Write(ctx context.Context, path string, limit time.Duration, index Index, parts []Part, secrets Secrets) (Index, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return index, fmt.Errorf("write %s: %w: name another file", path, err)
	}
	// The place is tried before the work.
	tmp, err := os.CreateTemp(filepath.Dir(path), ".cadre-report-*") // mode 0600
	if err != nil {
		return index, fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // it is linked by then, or of no use
	making, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	files := makeAll(making, parts, secrets)
	if ctx.Err() != nil {
		return index, fmt.Errorf("write %s: %w", path, context.Cause(ctx))
	}
	total := 0
	for i := range files {
		if f := &files[i]; total+len(f.content) > maxTotal {
			f.entry.Error, f.content = fmt.Sprintf("the archive would have more than %d bytes", maxTotal), nil
		}
		total += len(files[i].content)
		files[i].entry.Bytes = len(files[i].content)
		index.Parts = append(index.Parts, files[i].entry)
	}
	text, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return index, fmt.Errorf("write %s: %w", path, err)
	}
	all := append([]file{{entry: Entry{Path: IndexName}, content: append(text, '\n')}}, files...)
	err = errors.Join(archive(tmp, all, index.At), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Link(tmp.Name(), path) // unlike a rename it replaces nothing
	}
	if err != nil {
		return index, fmt.Errorf("write %s: %w", path, err)
	}
	return index, nil
}

func makeAll(ctx context.Context, parts []Part, secrets Secrets) []file {
	files := make([]file, len(parts))
	turns := make(chan struct{}, atOnce)
	var making sync.WaitGroup
	for i, p := range parts {
		making.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			files[i] = make1(ctx, p, secrets)
		})
	}
	making.Wait()
	return files
}

func make1(ctx context.Context, p Part, secrets Secrets) file {
	f := file{entry: Entry{Path: p.Path}}
	var made any
	err := ctx.Err()
	if err == nil {
		made, err = p.Make(ctx)
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	switch content := made.(type) {
	case nil:
	case []byte:
		f.content = content
	case string:
		f.content = []byte(content)
	default:
		text, err := asJSON(content)
		if err != nil {
			problem = strings.TrimSpace(problem + " " + err.Error())
		}
		f.content = text
	}
	if len(f.content) > maxPart {
		problem = strings.TrimSpace(fmt.Sprintf("%s cut at %d of %d bytes", problem, maxPart, len(f.content)))
		f.content = f.content[:maxPart]
	}
	f.content, f.entry.Removed = secrets.remove(f.content)
	cleaned, _ := secrets.remove([]byte(problem))
	f.entry.Error = string(cleaned)
	return f
}

// asJSON is a value as indented JSON without the values of fields that may hold secrets.
func asJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(&text)
	dec.UseNumber() // no number is rounded
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc = json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(Redact(tree))
	return out.Bytes(), err
}

func archive(into *os.File, files []file, at time.Time) error {
	packed := gzip.NewWriter(into)
	w := tar.NewWriter(packed)
	for _, f := range files {
		if f.content == nil {
			continue
		}
		header := &tar.Header{Name: f.entry.Path, Mode: 0o600, Size: int64(len(f.content)), ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), packed.Close())
}

// Name makes one element of a path from a foreign text.
func Name(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, text)
	return clean[:min(len(clean), 100)]
}

// Sorted orders parts by path.
func Sorted(parts []Part) []Part {
	slices.SortFunc(parts, func(a, b Part) int { return strings.Compare(a.Path, b.Path) })
	return parts
}
