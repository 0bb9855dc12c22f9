// Package bytecode compiles the Python files of an image by the image's own Python, so
// that it starts in half the time and can do so from a read-only root. The compiler runs
// in a sandbox with the image as its root, no network, and nothing of the machine.
package bytecode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cadre.dev/images/internal/tree"
)

// sandbox is the program that gives the compiler its root.
const sandbox = "bwrap"

// Compile adds Python's compiled modules of folders, which are relative, to t. The files carry no
// time and are never compared with their source (unchecked hashes); a fixed hash seed keeps sets in
// one order.
func Compile(ctx context.Context, t *tree.Tree, folders []string) error {
	if _, err := exec.LookPath(sandbox); err != nil {
		return errors.New("bwrap is not on PATH: the image's own Python compiles its modules in it (Debian package bubblewrap)")
	}
	root, err := os.MkdirTemp("", "cadre-images-root-")
	if err != nil {
		return fmt.Errorf("make a root: %w", err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	if err := t.Unpack(root); err != nil {
		return err
	}
	before, err := modules(root, folders)
	if err != nil {
		return err
	}
	if err := run(ctx, root, folders); err != nil {
		return err
	}
	after, err := modules(root, folders)
	if err != nil {
		return err
	}
	for name := range after {
		if before[name] {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return fmt.Errorf("read bytecode: %w", err)
		}
		if err := t.Put(tree.Entry{Path: name, Kind: tree.File, Mode: 0o644, Body: tree.Bytes(data), Origin: "bytecode"}); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, root string, folders []string) error {
	for _, dir := range []string{"dev", "proc", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make a root: %w", err)
		}
	}
	args := []string{
		"--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
		// The compiler's own imports must not be cached on the way, with their times.
		"--setenv", "PYTHONDONTWRITEBYTECODE", "1", "--setenv", "PYTHONHASHSEED", "0", "--setenv", "LC_ALL", "C.UTF-8", "--setenv", "PATH", "/usr/bin",
		"--bind", root, "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--",
		"/usr/bin/python3", "-m", "compileall", "-q", "-f", "-j1", "--invalidation-mode", "unchecked-hash",
	}
	for _, f := range folders {
		args = append(args, "/"+f)
	}
	cmd := exec.CommandContext(ctx, sandbox, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile Python modules in a sandbox (root, or unprivileged user namespaces): %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// modules lists the bytecode below folders.
func modules(root string, folders []string) (map[string]bool, error) {
	all := map[string]bool{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasSuffix(name, ".pyc") {
				name, err = filepath.Rel(root, name)
				all[filepath.ToSlash(name)] = true
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for bytecode: %w", err)
		}
	}
	return all, nil
}
