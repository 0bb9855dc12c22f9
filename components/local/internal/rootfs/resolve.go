package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

const (
	// maxLinks bounds the symlinks of one path, as the kernel does.
	maxLinks = 40
	// maxDepth bounds the parts of a path, and maxSteps the parts that its symlinks add: each step
	// reads every part before it.
	maxDepth = 128
	maxSteps = 1024
)

// Resolve returns the target of name inside root, relative to it and free of symlinks: absolute
// links begin at root again, and no link leads above it. A missing part is taken unchanged. The
// root itself is ".".
func Resolve(root *os.Root, name string) (string, error) {
	at, links := ".", 0
	rest, steps := strings.Split(name, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if steps++; steps > maxSteps {
			return "", fmt.Errorf("%.200s: more than %d parts with its symlinks", name, maxSteps)
		}
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		if err := deep(next); err != nil {
			return "", err
		}
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

// deep refuses paths of too many parts.
func deep(name string) error {
	if strings.Count(name, "/") >= maxDepth {
		return fmt.Errorf("%.200s: more than %d parts", name, maxDepth)
	}
	return nil
}

// MakeDirs makes the directory name, which Resolve returned, and those above it, all of
// them open to every user.
func MakeDirs(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := MakeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	return makeDir(root, name)
}

func makeDir(root *os.Root, name string) error {
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
	// The umask of the process is unknown.
	return root.Chmod(name, 0o755)
}
