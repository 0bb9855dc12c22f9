package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cadre.dev/local/internal/rootfs"
)

// RootedArgs returns bubblewrap's arguments, without the command, for a service whose root file
// system is the directory root. The service sees nothing else of the host: Visible and Hide have no
// effect. RootedArgs makes missing mount points and Dir in root, so root must have no other user
// meanwhile. Symlinks in their paths resolve inside root.
func RootedArgs(root string, c Config) ([]string, error) {
	if err := mayHave(c.Caps); err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	defer r.Close()
	b := &rooted{root: r, builder: builder{
		args: []string{
			"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--hostname", c.Hostname,
			"--bind", root, "/", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm", "--proc", "/proc", "--ro-bind", "/sys", "/sys",
		},
	}}
	for _, dir := range []string{"dev", "proc", "sys"} {
		if err := rootfs.MakeDirs(r, dir); err != nil {
			return nil, fmt.Errorf("the image's /%s: %w", dir, err)
		}
		b.placed = append(b.placed, Mount{Target: "/" + dir})
	}
	mounts, err := b.resolve(c.Mounts)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if err := b.place(m); err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	if err := b.workIn(c.Dir); err != nil {
		return nil, err
	}
	if !c.Writable {
		b.add("--remount-ro", "/")
	}
	b.caps(c.Caps)
	if c.InfoFD > 0 {
		b.add("--info-fd", strconv.Itoa(c.InfoFD))
	}
	return b.args, nil
}

// rooted is a builder over a directory that becomes the root. placed are the mounts so
// far, with targets free of symlinks.
type rooted struct {
	builder
	root   *os.Root
	placed []Mount
}

// resolve follows the root's symlinks in targets and sorts them, parents first.
func (b *rooted) resolve(mounts []Mount) ([]Mount, error) {
	out := slices.Clone(mounts)
	for i, m := range out {
		if !path.IsAbs(m.Target) {
			return nil, fmt.Errorf("mount %q: the target is not absolute", m.Target)
		}
		at, err := rootfs.Resolve(b.root, m.Target)
		if err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.Target, err)
		}
		if at == "." {
			return nil, fmt.Errorf("mount %s: in this image that is /", m.Target)
		}
		out[i].Target = "/" + at
	}
	slices.SortStableFunc(out, func(x, y Mount) int {
		return strings.Count(x.Target, "/") - strings.Count(y.Target, "/")
	})
	return out, nil
}

// above is the mount that covers target; none when that is root's own.
func (b *rooted) above(target string) (Mount, bool) {
	found, ok := Mount{}, false
	for _, m := range b.placed {
		if m.Target != target && within(target, m.Target) && len(m.Target) > len(found.Target) {
			found, ok = m, true
		}
	}
	return found, ok
}

func (b *rooted) place(m Mount) error {
	dir := m.Source == ""
	if !dir {
		info, err := os.Stat(m.Source)
		if err != nil {
			return fmt.Errorf("%s does not exist", m.Source)
		}
		dir = info.IsDir()
	}
	if err := b.mountPoint(m.Target, dir); err != nil {
		return err
	}
	switch {
	case m.Source == "":
		b.tmpfs(m)
	case m.ReadOnly:
		b.add("--ro-bind", m.Source, m.Target)
	default:
		b.add("--bind", m.Source, m.Target)
	}
	b.placed = append(b.placed, m)
	return nil
}

// tmpfs is a fresh one, whose own mount point exists.
func (b *rooted) tmpfs(m Mount) {
	mode := m.Mode
	if mode == 0 {
		mode = 0o1777
	}
	b.add("--perms", fmt.Sprintf("%04o", mode))
	if m.Size > 0 {
		b.add("--size", strconv.FormatInt(m.Size, 10))
	}
	b.add("--tmpfs", m.Target)
}

// mountPoint makes the place for a mount: in the root, in the directory that is bound
// there, or by bubblewrap's hand in a tmpfs, whose implicit parents only root could enter.
func (b *rooted) mountPoint(target string, dir bool) error {
	over, covered := b.above(target)
	if !covered {
		return point(b.root, strings.TrimPrefix(target, "/"), dir)
	}
	rest := strings.TrimPrefix(target, over.Target+"/")
	if over.Source == "" {
		for at := over.Target; ; {
			first, more, deeper := strings.Cut(rest, "/")
			if !deeper && !dir {
				return nil // bubblewrap makes the file
			}
			at = path.Join(at, first)
			b.add("--perms", "0755", "--dir", at)
			if !deeper {
				return nil
			}
			rest = more
		}
	}
	inside, err := os.OpenRoot(over.Source)
	if err != nil {
		return fmt.Errorf("it lies in %s: %w", over.Target, err)
	}
	defer inside.Close()
	// A volume's symlinks are its services' doing: none is followed here.
	for at := path.Dir(rest); at != "."; at = path.Dir(at) {
		if info, err := inside.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s/%s is a symlink", over.Target, at)
		}
	}
	return point(inside, rest, dir)
}

// point makes name in root, a directory or an empty file, unless it is there.
func point(root *os.Root, name string, dir bool) error {
	if dir {
		return rootfs.MakeDirs(root, name)
	}
	if err := rootfs.MakeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("make /%s: %w", name, err)
		}
		return f.Close()
	case err != nil:
		return fmt.Errorf("look at /%s: %w", name, err)
	case info.IsDir():
		return fmt.Errorf("/%s is a directory in the image, and the mount a file", name)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("/%s is a symlink", name)
	}
	return nil
}

// workIn makes the working directory, as container engines do, and begins there.
func (b *rooted) workIn(dir string) error {
	if dir == "" {
		dir = "/"
	}
	at, err := rootfs.Resolve(b.root, dir)
	if err != nil {
		return fmt.Errorf("working directory %s: %w", dir, err)
	}
	if _, covered := b.above(filepath.Join("/", at, "x")); !covered {
		if err := rootfs.MakeDirs(b.root, at); err != nil {
			return fmt.Errorf("working directory %s: %w", dir, err)
		}
	}
	b.add("--chdir", dir)
	return nil
}
