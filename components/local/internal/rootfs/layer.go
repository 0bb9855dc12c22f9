package rootfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Limits bound all layers of one image together.
type Limits struct {
	// Bytes of files, extended attributes and symlinks' targets; Entries of archives and
	// the folders above them that no archive names.
	Bytes   int64
	Entries int
}

// DefaultLimits hold every image that a CVM here could sensibly run.
var DefaultLimits = Limits{Bytes: 16 << 30, Entries: 1 << 20}

const (
	maxName     = 4096
	meanName    = 256 // bound of the average path: paths are kept while a layer is applied
	whiteout    = ".wh."
	whiteoutAll = ".wh..wh..opq"
	whiteoutOwn = ".wh..wh."
)

// Unpacker applies layers to a directory, the lowest first.
type Unpacker struct {
	root *os.Root
	left Limits
	// names are the bytes that the paths to come may have together.
	names int64
	// written are the paths of the layer at hand: its whiteouts hide lower layers only.
	// Cleared are the directories that have nothing of those any more.
	written, cleared map[string]bool
	dirs             []dirTime
}

type dirTime struct {
	name string
	at   time.Time
}

// NewUnpacker unpacks into root, which must be empty and have no other user meanwhile.
func NewUnpacker(root *os.Root, limits Limits) *Unpacker {
	return &Unpacker{root: root, left: limits, names: int64(limits.Entries) * meanName}
}

// Layer applies one uncompressed archive. After an error the directory is of no use.
func (u *Unpacker) Layer(r io.Reader) error {
	u.written, u.cleared, u.dirs = map[string]bool{}, map[string]bool{}, nil
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := u.entry(h, archive); err != nil {
			return fmt.Errorf("entry %.200q: %w", h.Name, err)
		}
	}
	// Entries change the times of their directories.
	for _, d := range slices.Backward(u.dirs) {
		if info, err := u.root.Lstat(d.name); err == nil && info.IsDir() {
			if err := u.root.Chtimes(d.name, d.at, d.at); err != nil {
				return fmt.Errorf("set time of %s: %w", d.name, err)
			}
		}
	}
	return nil
}

func (u *Unpacker) entry(h *tar.Header, content io.Reader) error {
	if err := u.count(h.Name); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.place(h.Name)
	if err != nil {
		return err
	}
	if dir, base := path.Split(name); strings.HasPrefix(base, whiteout) {
		return u.whiteOut(path.Clean(dir), base)
	}
	if err := u.make(name, h, content); err != nil {
		return err
	}
	for dir := name; dir != "." && !u.written[dir]; dir = path.Dir(dir) {
		u.written[dir] = true
	}
	return nil
}

// count takes one entry, or one folder without an entry, from the remaining budget.
func (u *Unpacker) count(name string) error {
	if u.left.Entries--; u.left.Entries < 0 {
		return errors.New("the image has too many entries")
	}
	if u.names -= int64(len(name)); u.names < 0 {
		return errors.New("the image's paths are too long together")
	}
	return nil
}

// spend takes bytes of the disk from the remaining budget.
func (u *Unpacker) spend(bytes int64) error {
	if bytes < 0 || bytes > u.left.Bytes {
		return errors.New("the image's files are too large together")
	}
	u.left.Bytes -= bytes
	return nil
}

// parents makes the folders down to dir, which Resolve returned.
func (u *Unpacker) parents(dir string) error {
	if dir == "." {
		return nil
	}
	if info, err := u.root.Lstat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := u.parents(path.Dir(dir)); err != nil {
		return err
	}
	if err := u.count(dir); err != nil {
		return err
	}
	return makeDir(u.root, dir)
}

// place checks an archive's path and returns it with the symlinks of its parents
// followed. An archive that names a place outside its root is refused, not corrected.
func (u *Unpacker) place(name string) (string, error) {
	switch {
	case len(name) > maxName:
		return "", fmt.Errorf("the path is longer than %d bytes", maxName)
	case strings.HasPrefix(name, "/"), slices.Contains(strings.Split(name, "/"), ".."), strings.ContainsRune(name, 0):
		return "", errors.New("the path leads out of the image")
	}
	name = path.Clean(name)
	if name == "." {
		return name, nil
	}
	dir, err := Resolve(u.root, path.Dir(name))
	if err != nil {
		return "", err
	}
	if err := u.parents(dir); err != nil {
		return "", err
	}
	name = path.Join(dir, path.Base(name))
	return name, deep(name)
}

// whiteOut removes the entries of lower layers at a name, or in the whole directory.
func (u *Unpacker) whiteOut(dir, base string) error {
	if base == whiteoutAll {
		return u.clear(dir)
	}
	if strings.HasPrefix(base, whiteoutOwn) {
		return nil // notes of another union file system
	}
	hidden := strings.TrimPrefix(base, whiteout)
	if hidden == "" || hidden == "." || hidden == ".." {
		return errors.New("a whiteout of nothing")
	}
	return u.remove(path.Join(dir, hidden))
}

// clear removes the entries of lower layers in a directory, once in a layer.
func (u *Unpacker) clear(dir string) error {
	if u.cleared[dir] {
		return nil
	}
	u.cleared[dir] = true
	f, err := u.root.Open(dir)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("list the directory: %w", err)
	}
	for _, name := range names {
		if err := u.remove(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the entries of lower layers at name and below.
func (u *Unpacker) remove(name string) error {
	if !u.written[name] {
		return u.root.RemoveAll(name)
	}
	if info, err := u.root.Lstat(name); err != nil || !info.IsDir() {
		return err
	}
	return u.clear(name)
}

// make makes one entry in place of an earlier one.
func (u *Unpacker) make(name string, h *tar.Header, content io.Reader) error {
	if h.Uid < 0 || h.Gid < 0 || h.Uid >= math.MaxUint32 || h.Gid >= math.MaxUint32 {
		return fmt.Errorf("owner %d:%d is out of range", h.Uid, h.Gid)
	}
	attributes, err := extended(h)
	if err != nil {
		return err
	}
	for _, a := range attributes {
		if err := u.spend(int64(len(a.name) + len(a.value))); err != nil {
			return err
		}
	}
	if h.Typeflag == tar.TypeDir {
		return u.directory(name, h, attributes)
	}
	if name == "." {
		return errors.New("the root of an image is a directory")
	}
	// The check comes before the removal of the present entry: a link may be to itself.
	target := ""
	if h.Typeflag == tar.TypeLink {
		if target, err = u.place(h.Linkname); err != nil {
			return fmt.Errorf("link to %.200q: %w", h.Linkname, err)
		}
		if target == name {
			return nil
		}
	}
	device := h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock || h.Typeflag == tar.TypeFifo
	if device && !strings.HasPrefix(name, "dev/") {
		return errors.New("a device; images have them below /dev only, where a service finds its own")
	}
	if err := u.root.RemoveAll(name); err != nil {
		return fmt.Errorf("replace what was there: %w", err)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, h, attributes, content)
	case tar.TypeSymlink:
		if len(h.Linkname) > maxName || h.Linkname == "" {
			return errors.New("the symlink's target is empty or too long")
		}
		if err := u.spend(int64(len(h.Linkname))); err != nil {
			return err
		}
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return u.root.Lchown(name, h.Uid, h.Gid)
	case tar.TypeLink:
		return u.root.Link(target, name)
	default:
		if device {
			return nil
		}
		return fmt.Errorf("entries of type %q are not taken", h.Typeflag)
	}
}

func (u *Unpacker) directory(name string, h *tar.Header, attributes []attribute) error {
	if name != "." {
		err := u.root.Mkdir(name, 0o700)
		if errors.Is(err, fs.ErrExist) {
			if info, statErr := u.root.Lstat(name); statErr != nil || !info.IsDir() {
				err = errors.Join(statErr, u.root.RemoveAll(name))
				if err == nil {
					err = u.root.Mkdir(name, 0o700)
				}
			} else {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	u.dirs = append(u.dirs, dirTime{name, h.ModTime})
	f, err := u.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(finish(f, h, attributes), f.Close())
}

func (u *Unpacker) file(name string, h *tar.Header, attributes []attribute, content io.Reader) error {
	if err := u.spend(h.Size); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = finish(f, h, attributes)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// finish gives a file or directory its owner, mode and attributes.
func finish(f *os.File, h *tar.Header, attributes []attribute) error {
	if err := f.Chown(h.Uid, h.Gid); err != nil {
		return err
	}
	for _, a := range attributes {
		if err := a.set(f); err != nil {
			return err
		}
	}
	// After the owner, whose change takes setuid away.
	mode := h.FileInfo().Mode()
	return f.Chmod(mode.Perm() | mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}
