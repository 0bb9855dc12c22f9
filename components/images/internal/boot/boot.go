// Package boot shows that built images run: it unpacks each into a folder and runs its recipe's
// tries in a sandbox, as the image's user, on a read-only root, without network.
package boot

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"cadre.dev/images/internal/oci"
	"cadre.dev/images/internal/recipe"
)

// ErrNoSandbox means that images cannot be run here.
var ErrNoSandbox = errors.New("no sandbox here (bwrap, as root or with unprivileged user namespaces)")

// Sandbox reports whether images can be run here.
func Sandbox(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "bwrap", "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %w %s", ErrNoSandbox, err, bytes.TrimSpace(out))
	}
	return nil
}

// Try runs the image of a recipe and returns its output.
func Try(ctx context.Context, n oci.Named, r *recipe.Recipe) (string, error) {
	if len(r.Try) == 0 {
		return "", fmt.Errorf("%s: its recipe tries nothing: name a command that shows that it runs", r.Name)
	}
	root, err := os.MkdirTemp("", "cadre-images-boot-")
	if err != nil {
		return "", fmt.Errorf("make a root: %w", err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	if err := unpack(n, root); err != nil {
		return "", fmt.Errorf("unpack %s: %w", n.Ref, err)
	}
	if err := bytecodeWithoutTime(root); err != nil {
		return "", err
	}
	config, err := n.Image.ConfigFile()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", n.Ref, err)
	}
	uid, gid, _ := strings.Cut(config.Config.User, ":")
	args := []string{
		"--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv", "--uid", uid, "--gid", gid,
		"--ro-bind", root, "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--chdir", "/",
	}
	for _, v := range config.Config.Env {
		name, value, _ := strings.Cut(v, "=")
		args = append(args, "--setenv", name, value)
	}
	var said strings.Builder
	for _, command := range r.Try {
		out, err := exec.CommandContext(ctx, "bwrap", slices.Concat(args, []string{"--"}, command)...).CombinedOutput()
		if err == nil && len(out) == 0 {
			err = errors.New("it printed nothing")
		}
		if err != nil {
			return "", fmt.Errorf("%s: %q: %w\n%s", n.Ref, command, err, out)
		}
		said.Write(out)
	}
	return said.String(), nil
}

// bytecodeWithoutTime finds compiled modules that carry the time of their source (PEP 552):
// they differ from build to build, and Python compiles them again at each start.
func bytecodeWithoutTime(root string) error {
	return filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".pyc") {
			return err
		}
		data, err := os.ReadFile(name)
		if err == nil && (len(data) < 16 || string(data[4:8]) != "\x01\x00\x00\x00") {
			err = fmt.Errorf("%s is not of the kind that is never compared with its source", strings.TrimPrefix(name, root))
		}
		return err
	})
}

// unpack writes the image's layers into a folder; links are not followed out of it.
func unpack(n oci.Named, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	layers, err := n.Image.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		packed, err := l.Compressed()
		if err != nil {
			return err
		}
		err = unpackLayer(root, packed)
		if err := errors.Join(err, packed.Close()); err != nil {
			return err
		}
	}
	return nil
}

func unpackLayer(root *os.Root, packed io.Reader) error {
	r, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackFile(root, h, in)
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, h *tar.Header, r io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	switch h.Typeflag {
	case tar.TypeDir:
		// Modes of folders matter for owners, which are not set here.
		if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(h.Linkname, name)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, os.FileMode(h.Mode)&0o777)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
