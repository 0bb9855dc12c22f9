package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mount is one thing on top of the host's files.
type Mount struct {
	// Source is a host path; empty is a fresh tmpfs.
	Source   string
	Target   string
	ReadOnly bool
	// Mode and Size are for a tmpfs; 0 takes the default.
	Mode uint32
	Size int64
}

// Config is one sandbox.
type Config struct {
	Hostname string
	// Visible host paths stay readable even where Hide or a tmpfs covers them, or where
	// users may not enter a directory above them, of which services see nothing else then.
	Visible []string
	// Hide lists host directories replaced by an empty directory.
	Hide   []string
	Mounts []Mount
	// Writable: the root's own entries can be changed (they are gone at the end).
	Writable bool
	// Caps are the capabilities of the command, if it runs as root; nil is none.
	Caps []string
	Dir  string
	// InfoFD, when positive, gets bubblewrap's JSON with the child's pid.
	InfoFD int
}

// scratch directories are empty and writable in every service.
var scratch = []string{"/tmp", "/run", "/var/tmp"}

// Args returns bubblewrap's arguments, without the command.
func Args(c Config) ([]string, error) {
	mounts, err := resolve(c.Mounts)
	if err != nil {
		return nil, err
	}
	if err := mayHave(c.Caps); err != nil {
		return nil, err
	}
	b := &builder{
		args: []string{"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--hostname", c.Hostname},
		made: map[string]kind{"/dev": mounted, "/proc": mounted},
	}
	b.explode("/")
	covered := slices.Concat(scratch, c.Hide)
	homes := slices.DeleteFunc(closed(c.Visible), func(dir string) bool {
		return slices.ContainsFunc(covered, func(c string) bool { return within(dir, followed(c)) })
	})
	for _, dir := range toExplode(mounts, slices.Concat(covered, homes)) {
		b.explode(dir)
	}
	// Container runtimes mount /dev/shm as a tmpfs that every user may write to; without it POSIX
	// semaphores and shared memory fail for unprivileged services.
	b.add("--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm", "--proc", "/proc")
	for _, dir := range homes {
		b.tmpfs(Mount{Target: dir, Mode: 0o755})
	}
	for _, dir := range covered {
		if real, err := filepath.EvalSymlinks(dir); err == nil && b.shown(real) {
			b.tmpfs(Mount{Target: real})
		}
	}
	for _, m := range mounts {
		if err := b.mount(m); err != nil {
			return nil, err
		}
	}
	b.show(c.Visible)
	if !c.Writable {
		b.add("--remount-ro", "/")
	}
	b.caps(c.Caps)
	if c.Dir != "" {
		b.add("--chdir", c.Dir)
	}
	if c.InfoFD > 0 {
		b.add("--info-fd", strconv.Itoa(c.InfoFD))
	}
	return b.args, nil
}

// show binds host paths that something of ours covers: after the mounts, since a tmpfs
// among these covers as well. In a volume nothing is made.
func (b *builder) show(paths []string) {
	for _, path := range paths {
		if _, k := b.under(path); k == mounted || b.shown(path) || !exists(path) {
			continue
		}
		b.ensureDir(filepath.Dir(path))
		b.add("--ro-bind", path, path)
		b.made[path] = mounted
	}
}

// closed lists the topmost directories above the paths that not every user may enter,
// such as root's home. A checkout there is of no use to a service that is not root.
func closed(paths []string) []string {
	var dirs []string
	for _, path := range paths {
		for end := 1; end < len(path); end++ {
			dir := path[:end]
			if path[end] != '/' || slices.Contains(dirs, dir) {
				continue
			}
			if info, err := os.Lstat(dir); err == nil && info.IsDir() && info.Mode()&0o001 == 0 {
				dirs = append(dirs, dir)
				break
			}
		}
	}
	return dirs
}

// within reports whether path is dir or below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// toExplode lists the host directories in which mount points must be made, parents first: an
// explosion covers earlier mounts there.
func toExplode(mounts []Mount, covered []string) []string {
	var dirs []string
	for _, m := range mounts {
		above := func(dir string) bool { return dir != m.Target && strings.HasPrefix(m.Target, dir+"/") }
		inMount := slices.ContainsFunc(mounts, func(o Mount) bool { return above(o.Target) })
		if inMount || slices.ContainsFunc(covered, func(d string) bool { return above(followed(d)) }) || exists(m.Target) {
			continue
		}
		dir := filepath.Dir(m.Target)
		for !exists(dir) {
			dir = filepath.Dir(dir)
		}
		if dir != "/" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	return dirs
}

// kind is the kind of a directory of the sandbox.
type kind int

const (
	_ kind = iota
	// exploded: ours, with the host's entries bound into it.
	exploded
	// blank: ours, and nothing of the host's is in it.
	blank
	// mounted: a file system of someone else's; children are its affair.
	mounted
)

type builder struct {
	args []string
	made map[string]kind
}

func (b *builder) add(args ...string) { b.args = append(b.args, args...) }

// under finds the nearest directory at or above path that we know, and its kind.
func (b *builder) under(path string) (string, kind) {
	for dir := path; ; dir = filepath.Dir(dir) {
		if k, ok := b.made[dir]; ok {
			return dir, k
		}
	}
}

// shown reports whether the service sees the host's own path there.
func (b *builder) shown(path string) bool {
	at, k := b.under(path)
	if k != exploded {
		return false
	}
	if at == path {
		return true
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, at), "/"), "/")
	return exists(filepath.Join(at, first)) && exists(path)
}

// explode makes dir a tmpfs that shows the host's entries of dir.
func (b *builder) explode(dir string) {
	b.made[dir] = exploded
	if dir != "/" { // bubblewrap's root is a tmpfs already
		perm := os.FileMode(0o755)
		if info, err := os.Stat(dir); err == nil {
			perm = info.Mode().Perm()
		}
		b.add("--perms", fmt.Sprintf("%04o", perm), "--tmpfs", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case b.made[path] != 0:
		case e.Type()&os.ModeSymlink != 0:
			if to, err := os.Readlink(path); err == nil {
				b.add("--symlink", to, path)
			}
		case e.IsDir() || e.Type().IsRegular():
			b.add("--ro-bind", path, path)
		}
	}
}

// ensureDir makes dir where its parent is ours; elsewhere it is there already.
func (b *builder) ensureDir(dir string) {
	if _, k := b.under(dir); b.made[dir] != 0 || k == mounted || b.shown(dir) {
		return
	}
	b.ensureDir(filepath.Dir(dir))
	// Not left to bubblewrap, whose implicit parents only root can enter.
	b.add("--perms", "0755", "--dir", dir)
	b.made[dir] = blank
}

func (b *builder) tmpfs(m Mount) {
	if m.Mode == 0 {
		m.Mode = 0o1777
	}
	b.add("--perms", fmt.Sprintf("%04o", m.Mode))
	if m.Size > 0 {
		b.add("--size", strconv.FormatInt(m.Size, 10))
	}
	b.add("--tmpfs", m.Target)
	b.made[m.Target] = blank
}

// mount puts m on its target, making the target possible first.
func (b *builder) mount(m Mount) error {
	b.ensureDir(filepath.Dir(m.Target))
	if m.Source == "" {
		b.tmpfs(m)
		return nil
	}
	if !exists(m.Source) {
		return fmt.Errorf("mount %s: %s does not exist", m.Target, m.Source)
	}
	if m.ReadOnly {
		b.add("--ro-bind", m.Source, m.Target)
	} else {
		b.add("--bind", m.Source, m.Target)
	}
	b.made[m.Target] = mounted
	return nil
}

// caps gives the service these and no others.
func (b *builder) caps(keep []string) {
	b.add("--cap-drop", "ALL")
	for _, c := range keep {
		b.add("--cap-add", "CAP_"+c)
	}
}

// resolve follows symlinks in targets (/var/run is one) and sorts them, parents
// first.
func resolve(mounts []Mount) ([]Mount, error) {
	out := slices.Clone(mounts)
	for i, m := range out {
		if !filepath.IsAbs(m.Target) {
			return nil, fmt.Errorf("mount %q: the target is not absolute", m.Target)
		}
		out[i].Target = followed(m.Target)
	}
	slices.SortStableFunc(out, func(a, b Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	return out, nil
}

// followed resolves symlinks of the deepest existing ancestor of path.
func followed(path string) string {
	path = filepath.Clean(path)
	for rest, dir := "", path; ; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == "/" {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = filepath.Dir(dir)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
