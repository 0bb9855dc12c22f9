package build

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/images/internal/oci"
	"cadre.dev/images/internal/recipe"
)

const repositoryRoot = "../../../.."

// TestEachImageRuns unpacks each image of .out/images and calls what its recipe tries, as
// the image's user on a read-only root without network.
func TestEachImageRuns(t *testing.T) {
	layout := filepath.Join(repositoryRoot, ".out/images")
	if _, err := os.Stat(layout); err != nil {
		t.Skip("no images are built: run make images")
	}
	if out, err := exec.CommandContext(t.Context(), "bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput(); err != nil {
		t.Skipf("no sandbox here: bwrap: %v %s", err, out)
	}
	set, err := recipe.Load(filepath.Join(repositoryRoot, Recipes), true)
	if err != nil {
		t.Fatal(err)
	}
	images, err := oci.ReadLayout(layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range images {
		t.Run(n.Ref, func(t *testing.T) {
			for _, r := range set.Images() {
				if name, _, _ := strings.Cut(n.Ref, ":"); r.Name == name {
					try(t, n, r)
					return
				}
			}
			t.Skip("it has no recipe any more: run make images")
		})
	}
}

func try(t *testing.T, n oci.Named, r *recipe.Recipe) {
	t.Helper()
	if len(r.Try) == 0 {
		t.Fatal("its recipe tries nothing")
	}
	root := unpack(t, n)
	bytecodeWithoutTime(t, root)
	config, err := n.Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
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
	out, err := exec.CommandContext(t.Context(), "bwrap", append(append(args, "--"), r.Try...)...).CombinedOutput()
	if err != nil || len(out) == 0 {
		t.Errorf("%q: %v\n%s", r.Try, err, out)
	}
	t.Logf("%s", out)
}

// bytecodeWithoutTime finds compiled modules that carry the time of their source (PEP 552):
// they differ from build to build, and Python compiles them again at each start.
func bytecodeWithoutTime(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".pyc") {
			return err
		}
		data, err := os.ReadFile(name)
		if err == nil && (len(data) < 16 || string(data[4:8]) != "\x01\x00\x00\x00") {
			t.Errorf("%s is not of the kind that is never compared with its source", strings.TrimPrefix(name, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unpack writes the image's layers into a folder; links are not followed out of it.
func unpack(t *testing.T, n oci.Named) string {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	layers, err := n.Image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		in := tar.NewReader(r)
		for {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = unpackOne(root, h, in)
			}
			if err != nil {
				t.Fatalf("%s: %v", n.Ref, err)
			}
		}
		_ = r.Close()
	}
	return dir
}

func unpackOne(root *os.Root, h *tar.Header, r io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	switch h.Typeflag {
	case tar.TypeDir:
		// Modes of folders are for owners, who are not set here.
		if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(h.Linkname, name)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, os.FileMode(h.Mode))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
