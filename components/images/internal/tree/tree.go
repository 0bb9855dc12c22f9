package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is the kind of an Entry. An image has no devices, sockets and pipes.
type Kind int

// The kinds of entries.
const (
	Directory Kind = iota + 1
	File
	Symlink
)

// Entry is one file of a layer.
type Entry struct {
	// Path is relative, with slashes and without a dot at its start.
	Path string
	Kind Kind
	// Mode has the permission bits and, of directories, the sticky bit. The runner decides about a
	// program's rights: set-id bits are not kept.
	Mode     int64
	UID, GID int
	// Target is a Symlink's.
	Target string
	// Body is a File's.
	Body Body
	// Origin names the package of the file, for messages.
	Origin string
	// implied directories were made for their content: a later entry may set their owner and mode.
	implied bool
}

// Body is where the bytes of a file are: in Data, or in a file of this machine.
type Body struct {
	Data   []byte
	File   string
	Offset int64
	// Size is in bytes.
	Size int64
}

// Bytes is a Body that is in memory.
func Bytes(data []byte) Body { return Body{Data: data, Size: int64(len(data))} }

// Open reads the body from its start.
func (b Body) Open() (io.ReadCloser, error) {
	if b.File == "" {
		return io.NopCloser(bytes.NewReader(b.Data)), nil
	}
	f, err := os.Open(b.File)
	if err != nil {
		return nil, fmt.Errorf("open the bytes of a package: %w", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, b.Offset, b.Size), f}, nil
}

// maxBody bounds the input of ReadAll, in bytes.
const maxBody = 16 << 20

// ReadAll returns the body, which must be small.
func (b Body) ReadAll() ([]byte, error) {
	if b.Size > maxBody {
		return nil, fmt.Errorf("%d bytes are more than the %d that are read at once", b.Size, maxBody)
	}
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err == nil && int64(len(data)) != b.Size {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

// Bounds of a tree: no image of ours comes near.
const (
	maxEntries = 200_000
	maxPath    = 1024
	maxTarget  = 1024
)

// merged are the folders that a merged /usr and /run have elsewhere. Packages of the
// distribution name both places.
var merged = []struct{ from, to string }{
	{"bin", "usr/bin"}, {"sbin", "usr/sbin"}, {"lib", "usr/lib"}, {"lib32", "usr/lib32"}, {"lib64", "usr/lib64"},
	{"libx32", "usr/libx32"}, {"var/run", "run"}, {"var/lock", "run/lock"},
}

// Tree is the files that one layer adds to those below it. It is for one goroutine.
type Tree struct {
	lower   *Tree
	entries map[string]Entry
}

// New is an empty layer on another one, or on nothing.
func New(lower *Tree) *Tree {
	return &Tree{lower: lower, entries: map[string]Entry{}}
}

// ErrConflict is wrapped when two packages disagree about a path.
var ErrConflict = errors.New("two packages disagree")

// Add takes a file of a package. A present file must be the same; a directory keeps its first owner
// and mode.
func (t *Tree) Add(e Entry) error {
	e, err := t.place(e)
	if err != nil {
		return err
	}
	there, ok := t.Lookup(e.Path)
	switch {
	case !ok:
	case there.Kind == Directory && e.Kind == Directory:
		if !there.implied || e.implied {
			return nil
		}
	case there.Kind != e.Kind || there.Target != e.Target || !same(there, e):
		return fmt.Errorf("%s: %w: %s and %s; drop it in the recipe or exclude one of them", e.Path, ErrConflict, there.Origin, e.Origin)
	default:
		return nil
	}
	return t.put(e)
}

// Put takes a file of the recipe, in place of a package's. A file replaces files and
// links; a directory gives another one its owner and mode.
func (t *Tree) Put(e Entry) error {
	e, err := t.place(e)
	if err != nil {
		return err
	}
	if there, ok := t.Lookup(e.Path); ok && (there.Kind == Directory) != (e.Kind == Directory) {
		return fmt.Errorf("%s: %s has it as another kind of file", e.Path, there.Origin)
	}
	return t.put(e)
}

func (t *Tree) put(e Entry) error {
	if len(t.entries) >= maxEntries {
		return fmt.Errorf("more than %d files", maxEntries)
	}
	t.entries[e.Path] = e
	return nil
}

// place checks an entry and finds where a merged /usr has it.
func (t *Tree) place(e Entry) (Entry, error) {
	clean, err := Clean(e.Path)
	if err != nil {
		return e, fmt.Errorf("%s of %s", err, e.Origin) //nolint:errorlint // the text is the error
	}
	e.Path = clean
	for _, m := range merged {
		if e.Path == m.from && e.Kind != Symlink {
			e.Path = m.to
		} else if below, ok := strings.CutPrefix(e.Path, m.from+"/"); ok {
			e.Path = m.to + "/" + below
		}
	}
	switch e.Kind {
	case Directory:
		e.Mode &= 0o1777
	case File:
		e.Mode &= 0o777
	case Symlink:
		e.Mode = 0o777
		if e.Target == "" || len(e.Target) > maxTarget || strings.ContainsRune(e.Target, 0) {
			return e, fmt.Errorf("%s: a link to %.40q of %s", e.Path, e.Target, e.Origin)
		}
	default:
		return e, fmt.Errorf("%s: neither file, directory nor link, of %s", e.Path, e.Origin)
	}
	return e, t.folders(e)
}

// folders makes the folders above e, and rejects a link or file there.
func (t *Tree) folders(e Entry) error {
	folder := path.Dir(e.Path)
	if folder == "." {
		return nil
	}
	if there, ok := t.Lookup(folder); ok {
		if there.Kind != Directory {
			return fmt.Errorf("%s of %s: its folder %s is no directory (%s)", e.Path, e.Origin, folder, there.Origin)
		}
		return nil
	}
	up := Entry{Path: folder, Kind: Directory, Mode: 0o755, Origin: e.Origin, implied: true}
	if err := t.folders(up); err != nil {
		return err
	}
	return t.put(up)
}

// whiteout begins names that mean, in a layer, that something below is not there.
const whiteout = ".wh."

// Clean makes "./a/b/" of an archive "a/b". It refuses paths that lead out, and names that
// would take something out of the layers below.
func Clean(name string) (string, error) {
	switch {
	case len(name) > maxPath:
		return "", fmt.Errorf("a path longer than %d bytes", maxPath)
	case strings.HasPrefix(name, "/"), strings.ContainsAny(name, "\x00\\"), slices.Contains(strings.Split(name, "/"), ".."):
		return "", fmt.Errorf("the path %q, which leads out or is not clean,", name)
	}
	clean := path.Clean(name)
	if strings.HasPrefix(clean, whiteout) || strings.Contains(clean, "/"+whiteout) {
		return "", fmt.Errorf("the path %q, which removes a file of the layers below,", name)
	}
	if clean == "." {
		return "", fmt.Errorf("an empty path")
	}
	return clean, nil
}

// Lookup finds the entry of a clean path in this layer or below.
func (t *Tree) Lookup(name string) (Entry, bool) {
	for at := t; at != nil; at = at.lower {
		if e, ok := at.entries[name]; ok {
			return e, true
		}
	}
	return Entry{}, false
}

// Find follows links, like the kernel, to the entry of a path of the image.
func (t *Tree) Find(name string) (Entry, bool) {
	rest := strings.Split(path.Clean("/" + name)[1:], "/")
	at := ""
	for hops := 0; len(rest) > 0; {
		at = path.Join(at, rest[0])
		e, ok := t.Lookup(at)
		if !ok {
			return Entry{}, false
		}
		rest = rest[1:]
		if e.Kind != Symlink {
			if len(rest) == 0 {
				return e, true
			}
			continue
		}
		if hops++; hops > 40 {
			return Entry{}, false
		}
		target := e.Target
		if !path.IsAbs(target) {
			target = path.Join("/", path.Dir(at), target)
		}
		rest = append(strings.Split(path.Clean(target)[1:], "/"), rest...)
		at = ""
	}
	return Entry{}, false
}

// Entries are the entries of this layer alone, sorted by path.
func (t *Tree) Entries() []Entry {
	all := make([]Entry, 0, len(t.entries))
	for _, e := range t.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// All are the entries of the image: this layer over those below it, sorted by path.
func (t *Tree) All() []Entry {
	flat := New(nil)
	for at := t; at != nil; at = at.lower {
		for name, e := range at.entries {
			if _, ok := flat.entries[name]; !ok {
				flat.entries[name] = e
			}
		}
	}
	return flat.Entries()
}

// Unpack writes the image into an empty folder: for programs of the image that the build
// itself runs. Owners are not set.
func (t *Tree) Unpack(dir string) error {
	for _, e := range t.All() {
		at := filepath.Join(dir, filepath.FromSlash(e.Path))
		if err := unpack(e, at); err != nil {
			return fmt.Errorf("unpack %s: %w", e.Path, err)
		}
	}
	return nil
}

// unpack is safe since the tree is: no path of it leads through a link.
func unpack(e Entry, at string) error {
	switch e.Kind {
	case Directory:
		return os.Mkdir(at, 0o700)
	case Symlink:
		return os.Symlink(e.Target, at)
	case File:
	}
	r, err := e.Body.Open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(e.Mode)|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// same compares two files by their bytes and modes.
func same(a, b Entry) bool {
	if a.Kind != File {
		return true
	}
	if a.Body.Size != b.Body.Size || a.Mode != b.Mode {
		return false
	}
	x, errX := a.Body.ReadAll()
	y, errY := b.Body.ReadAll()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Remove takes a file of this layer out again; files of lower layers stay.
func (t *Tree) Remove(name string) { delete(t.entries, name) }
