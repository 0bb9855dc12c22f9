package cvminit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"cadre.dev/local/internal/compose"
	"cadre.dev/local/internal/initctl"
	"cadre.dev/local/internal/sandbox"
	"golang.org/x/sys/unix"
)

// volumeSet makes named volumes when the first service needs them.
type volumeSet struct {
	spec initctl.Spec
	// flush puts everything below a directory on the disk.
	flush func(dir string) error

	mu    sync.Mutex
	ready map[string]bool
}

// mounts returns u's volumes, tmpfs and guest socket.
func (v *volumeSet) mounts(u *unit) ([]sandbox.Mount, error) {
	var out []sandbox.Mount
	for _, m := range u.svc.Mounts {
		switch m.Kind {
		case compose.MountVolume:
			dir, err := v.ensure(u.volumes[m.Source], u, m.Target)
			if err != nil {
				return nil, fmt.Errorf("volume %s: %w", m.Source, err)
			}
			out = append(out, sandbox.Mount{Source: dir, Target: m.Target, ReadOnly: m.ReadOnly})
		case compose.MountTmpfs:
			out = append(out, sandbox.Mount{Target: m.Target, Mode: m.Mode, Size: m.Size})
		case compose.MountConfig: // made by prepareFiles
		case compose.MountGuest:
			out = append(out, sandbox.Mount{Source: v.spec.GuestSocket, Target: m.Target})
		}
	}
	return out, nil
}

// ensure makes the volume. A new volume on the disk gets the files at the target of the first
// mounting service's image; without an image it belongs to that service's user.
func (v *volumeSet) ensure(vol compose.Volume, u *unit, target string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if vol.Tmpfs {
		dir := filepath.Join(v.spec.Run, "tmpfs", vol.Name)
		if v.ready[vol.Name] {
			return dir, nil
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return "", err
		}
		flags, data := mountOptions(vol.Options)
		if err := unix.Mount("tmpfs", dir, "tmpfs", flags, data); err != nil {
			return "", fmt.Errorf("mount tmpfs with %q: %w", vol.Options, err)
		}
		v.ready[vol.Name] = true
		return dir, nil
	}
	dir := filepath.Join(v.spec.Disk, "volumes", vol.Name)
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", err
	}
	// The content is written to a temporary folder first, so that a power cut leaves none or all of
	// it. Volumes have no names that begin with a dot.
	fresh := filepath.Join(filepath.Dir(dir), ".new-"+vol.Name)
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	if err := os.Mkdir(fresh, 0o755); err != nil { //nolint:gosec // the mode that a container engine gives a volume
		return "", err
	}
	var err error
	if u.root == "" {
		err = os.Chown(fresh, u.who.uid, u.who.gid)
	} else {
		err = populate(fresh, u.root, target)
	}
	// A file system may write the new name to the disk before the files below it.
	if err == nil {
		err = v.flush(fresh)
	}
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	return dir, err
}

// forgetUnnamed drops the unnamed volumes of a service without a container. They belong to one
// container: compose passes them to its replacement, and the guest prunes them without one.
func (v *volumeSet) forgetUnnamed(u *unit) error {
	for _, m := range u.svc.Mounts {
		if m.Kind != compose.MountVolume || m.Source != compose.Anonymous(u.svc.Name, m.Target) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(v.spec.Disk, "volumes", m.Source)); err != nil {
			return fmt.Errorf("drop the volume at %s: %w", m.Target, err)
		}
	}
	return nil
}

// syncfs flushes the whole file system that dir is on: one call for any number of files.
func syncfs(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "noexec": unix.MS_NOEXEC, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noatime": unix.MS_NOATIME,
	"rw": 0, "exec": 0, "suid": 0, "dev": 0,
}

// mountOptions splits mount(8) options into flags and the file system's own data.
func mountOptions(text string) (flags uintptr, data string) {
	var rest []string
	for o := range strings.SplitSeq(text, ",") {
		if f, ok := mountFlags[o]; ok {
			flags |= f
		} else if o != "" {
			rest = append(rest, o)
		}
	}
	return flags, strings.Join(rest, ",")
}

// prepareFiles writes u's configs, hosts file and resolver file for this boot into dir.
func (s *supervisor) prepareFiles(dir string, u *unit) ([]sandbox.Mount, error) {
	hosts := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t" + s.hostname(u) + "\n"
	for _, line := range u.svc.Hosts {
		hosts += line + "\n"
	}
	files := []struct {
		compose.Mount
		name string
	}{
		// Read-only with the root, as container engines have it.
		{compose.Mount{Target: "/etc/hosts", Content: hosts, ReadOnly: u.svc.ReadOnly, Mode: 0o644}, "hosts"},
		// A CVM here has no name server; an empty file makes lookups fail at once.
		{compose.Mount{Target: "/etc/resolv.conf", ReadOnly: true, Mode: 0o644}, "resolv.conf"},
	}
	taken := map[string]bool{}
	for i, m := range u.svc.Mounts {
		taken[m.Target] = true
		if m.Kind == compose.MountConfig {
			files = append(files, struct {
				compose.Mount
				name string
			}{m, "config-" + strconv.Itoa(i)})
		}
	}
	var out []sandbox.Mount
	for _, f := range files {
		if f.Kind != compose.MountConfig && taken[f.Target] {
			continue
		}
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, []byte(f.Content), os.FileMode(f.Mode)); err != nil {
			return nil, fmt.Errorf("write %s: %w", f.Target, err)
		}
		if err := errors.Join(os.Chown(path, f.UID, f.GID), os.Chmod(path, os.FileMode(f.Mode))); err != nil {
			return nil, fmt.Errorf("set owner and mode of %s: %w", f.Target, err)
		}
		out = append(out, sandbox.Mount{Source: path, Target: f.Target, ReadOnly: f.ReadOnly})
	}
	return out, nil
}
