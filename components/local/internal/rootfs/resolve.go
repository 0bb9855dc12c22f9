package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxLinks bounds the symlinks of one path, as the kernel does.
const maxLinks = 40

// Resolve returns where name leads inside root, relative to it and free of symlinks:
// absolute links begin at root again, and nothing leads above it. What does not exist
// yet is taken as it is written. The root itself is ".".
func Resolve(root *os.Root, name string) (string, error) {
	at, links := ".", 0
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		info, err := root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			at = next
			continue
		case err != nil:
			return "", fmt.Errorf("look at %s: %w", next, err)
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: more than %d symlinks", name, maxLinks)
		}
		to, err := root.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("read link %s: %w", next, err)
		}
		if path.IsAbs(to) {
			at = "."
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, nil
}

// MakeDirs makes the directory name, which Resolve returned, and those above it, all of
// them open to every user.
func MakeDirs(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if err := MakeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	err := root.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		info, statErr := root.Lstat(name)
		if statErr != nil {
			return fmt.Errorf("look at %s: %w", name, statErr)
		}
		if !info.IsDir() {
			return fmt.Errorf("/%s is a file and not a directory", name)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	// The umask is whoever's.
	return root.Chmod(name, 0o755)
}
