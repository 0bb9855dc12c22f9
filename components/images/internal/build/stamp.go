package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"cadre.dev/images/internal/fetch"
	"cadre.dev/images/internal/recipe"
)

// stampEnding names the file next to a layout that lists the layout's inputs.
const stampEnding = "-stamp.json"

// stamp records a finished build. While the inputs are the same, and the layout is as it was
// written, there is nothing to build.
type stamp struct {
	// Inputs is a digest of the images' inputs, Layout of the written layout.
	Inputs  string   `json:"inputs"`
	Layout  string   `json:"layout"`
	Results []Result `json:"results"`
}

// inputs is a digest of all inputs of the written layout: this program, recipes, locks and pins,
// our licence, the programs, and the request.
func (r *run) inputs(wanted []*recipe.Recipe) (string, error) {
	h := sha256.New()
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	recipes, err := os.ReadDir(filepath.Join(r.Root, Recipes))
	if err != nil {
		return "", fmt.Errorf("read recipes: %w", err)
	}
	files := []string{self, filepath.Join(r.Root, "LICENSE")}
	for _, one := range recipes {
		files = append(files, filepath.Join(r.Root, Recipes, one.Name()))
	}
	for _, name := range files {
		sum, _, err := fetch.Digest(name)
		if err != nil {
			return "", fmt.Errorf("read what images are made of: %w", err)
		}
		say(h, filepath.Base(name), sum)
	}
	say(h, r.Version, r.Source, compressor())
	for _, w := range wanted {
		say(h, w.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.programs)) {
		say(h, name, r.programs[name].sha256)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// say adds texts to a digest so that none can take bytes of its neighbour.
func say(w io.Writer, texts ...string) {
	for _, t := range texts {
		_, _ = io.WriteString(w, strconv.Quote(t)+"\n") // a hash takes everything
	}
}

// written is a digest of a layout and of the documents about its images: the index, and the names
// and sizes of all files; blobs are named by their digests.
func written(dir string) (string, error) {
	h := sha256.New()
	index, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return "", err
	}
	say(h, string(index))
	for _, folder := range []string{filepath.Join(dir, "blobs"), dir + "-about"} {
		err = errors.Join(err, filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil {
				say(h, e.Name(), strconv.FormatInt(info.Size(), 10))
			}
			return err
		}))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// unchanged gives the results of the build that left the layout, when it would be the same
// again.
func (r *run) unchanged(inputs string) ([]Result, bool) {
	text, err := os.ReadFile(r.Out + stampEnding)
	if err != nil {
		return nil, false
	}
	var s stamp
	if json.Unmarshal(text, &s) != nil || s.Inputs != inputs {
		return nil, false
	}
	layout, err := written(r.Out)
	return s.Results, err == nil && layout == s.Layout
}

// leaveStamp is written last: a build that was interrupted leaves none.
func (r *run) leaveStamp(inputs string, results []Result) error {
	layout, err := written(r.Out)
	if err != nil {
		return fmt.Errorf("read the layout again: %w", err)
	}
	text, err := json.Marshal(stamp{Inputs: inputs, Layout: layout, Results: results})
	if err == nil {
		err = os.WriteFile(r.Out+stampEnding, append(text, '\n'), 0o644) //nolint:gosec // a public file
	}
	if err != nil {
		return fmt.Errorf("say what the layout was made of: %w", err)
	}
	return nil
}

// removeStamp before the layout changes.
func (r *run) removeStamp() error {
	if err := os.Remove(r.Out + stampEnding); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what the layout was made of: %w", err)
	}
	return nil
}

// programFolder is the folder in which our programs are built. A present, current program is not
// linked again. One build at a time holds the folder.
func (r *run) programFolder(ctx context.Context) (dir string, release func(), err error) {
	dir = r.Out + "-programs"
	if r.Fresh {
		if err := os.RemoveAll(dir); err != nil {
			return "", nil, fmt.Errorf("remove the programs of another build: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // public files
		return "", nil, fmt.Errorf("make a folder for programs: %w", err)
	}
	release, err = hold(ctx, filepath.Join(dir, ".lock"))
	return dir, release, err
}

// hold waits until no other process holds a file.
func hold(ctx context.Context, path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("wait for another build: %w", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("wait for another build: %w", err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another build: %w", context.Cause(ctx)), f.Close())
		case <-tick.C:
		}
	}
}
