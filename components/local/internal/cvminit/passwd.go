package cvminit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"

	"cadre.dev/local/internal/become"
	"cadre.dev/local/internal/rootfs"
)

// people are the users and groups that a service's names mean.
type people interface {
	// user finds by name or number; false when there is none.
	user(nameOrID string) (person, bool, error)
	// group finds a group's number by name.
	group(name string) (int, bool)
	// where names whose files were asked, for messages.
	where() string
}

type person struct {
	uid, gid int
	home     string
	groups   []int // besides gid
}

// hostPeople are this machine's, for services that run its programs.
type hostPeople struct{}

func (hostPeople) user(name string) (person, bool, error) {
	u, err := user.Lookup(name)
	if _, bad := become.ID(name); err != nil && bad == nil {
		u, err = user.LookupId(name) // which takes larger numbers for smaller ones
	}
	if err != nil {
		return person{}, false, nil //nolint:nilerr // not found, for any reason
	}
	p := person{home: u.HomeDir}
	p.uid, _ = strconv.Atoi(u.Uid)
	p.gid, _ = strconv.Atoi(u.Gid)
	ids, err := u.GroupIds()
	if err != nil {
		return p, true, fmt.Errorf("groups of %s: %w", name, err)
	}
	for _, id := range ids {
		if n, err := strconv.Atoi(id); err == nil && n != p.gid {
			p.groups = append(p.groups, n)
		}
	}
	return p, true, nil
}

func (hostPeople) group(name string) (int, bool) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(g.Gid)
	return n, err == nil
}

func (hostPeople) where() string { return "on this machine" }

// imagePeople are the users and groups of an image's /etc/passwd and /etc/group; either may be
// absent.
type imagePeople struct {
	passwd, groups [][]string
}

const maxPeople = 1 << 20

func readPeople(rootDir string) (imagePeople, error) {
	var p imagePeople
	root, err := os.OpenRoot(rootDir)
	if err != nil {
		return p, fmt.Errorf("open the image: %w", err)
	}
	defer root.Close()
	if p.passwd, err = fields(root, "etc/passwd", 7); err != nil {
		return p, err
	}
	p.groups, err = fields(root, "etc/group", 4)
	return p, err
}

// fields reads the lines of n fields; others are skipped, as the C library does.
func fields(root *os.Root, name string, n int) ([][]string, error) {
	at, err := rootfs.Resolve(root, name)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the image's /%s: %w", name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxPeople {
		return nil, fmt.Errorf("the image's /%s is no file of at most %d bytes", name, maxPeople)
	}
	var out [][]string
	lines := bufio.NewScanner(io.LimitReader(f, maxPeople))
	for lines.Scan() {
		if parts := strings.Split(lines.Text(), ":"); len(parts) == n && !strings.HasPrefix(parts[0], "#") {
			out = append(out, parts)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the image's /%s: %w", name, err)
	}
	return out, nil
}

func (p imagePeople) user(name string) (person, bool, error) {
	for _, column := range []int{0, 2} {
		for _, line := range p.passwd {
			if line[column] != name {
				continue
			}
			uid, uidErr := strconv.ParseUint(line[2], 10, 31)
			gid, gidErr := strconv.ParseUint(line[3], 10, 31)
			if uidErr != nil || gidErr != nil {
				return person{}, false, fmt.Errorf("user %s has no numbers in the image's /etc/passwd", name)
			}
			out := person{uid: int(uid), gid: int(gid), home: path.Join("/", line[5])}
			for _, g := range p.groups {
				id, err := strconv.ParseUint(g[2], 10, 31)
				if err == nil && int(id) != out.gid && contains(g[3], line[0]) {
					out.groups = append(out.groups, int(id))
				}
			}
			return out, true, nil
		}
	}
	return person{}, false, nil
}

func contains(list, name string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part == name {
			return true
		}
	}
	return false
}

func (p imagePeople) group(name string) (int, bool) {
	for _, line := range p.groups {
		if line[0] == name {
			n, err := strconv.ParseUint(line[2], 10, 31)
			return int(n), err == nil
		}
	}
	return 0, false
}

func (imagePeople) where() string { return "in the image" }
