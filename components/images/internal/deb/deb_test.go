package deb

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"cadre.dev/images/internal/tree"
)

func tarball(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		text := h.Uname // the file's text, for want of a better place
		h.Uname = ""
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); h.Typeflag == tar.TypeReg && err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func regular(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Uname: text}
}

func pack(t *testing.T, ending string, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch ending {
	case "":
		return data
	case ".gz":
		w := gzip.NewWriter(&out)
		_, err = w.Write(data)
		_ = w.Close()
	case ".xz":
		w, errXZ := xz.NewWriter(&out)
		if errXZ != nil {
			t.Fatal(errXZ)
		}
		_, err = w.Write(data)
		_ = w.Close()
	case ".zst":
		w, errZ := zstd.NewWriter(&out)
		if errZ != nil {
			t.Fatal(errZ)
		}
		_, err = w.Write(data)
		_ = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func ar(members map[string][]byte, order ...string) []byte {
	var out bytes.Buffer
	out.WriteString(magic)
	for _, name := range order {
		data := members[name]
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, 0, 0, 0, "100644", len(data))
		out.Write(data)
		if len(data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

const control = "Package: dash\nVersion: 0.5-1\nArchitecture: amd64\nSource: dash-src (0.5)\n"

// write makes a package file of a data archive.
func write(t *testing.T, ending string, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.deb")
	raw := ar(map[string][]byte{
		"debian-binary": []byte("2.0\n"), "control.tar" + ending: pack(t, ending, tarball(t, regular("./control", control))), "data.tar" + ending: pack(t, ending, data),
	}, "debian-binary", "control.tar"+ending, "data.tar"+ending)
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, name string) (*Package, error) {
	t.Helper()
	return Read(name, filepath.Join(t.TempDir(), "spool"))
}

func TestReadTakesEveryCompression(t *testing.T) {
	for _, ending := range []string{"", ".gz", ".xz", ".zst"} {
		t.Run("data.tar"+ending, func(t *testing.T) {
			p, err := read(t, write(t, ending, tarball(t,
				tar.Header{Typeflag: tar.TypeDir, Name: "./"}, tar.Header{Typeflag: tar.TypeDir, Name: "./usr/bin/", Mode: 0o755},
				regular("./usr/bin/dash", "program"), tar.Header{Typeflag: tar.TypeSymlink, Name: "./usr/bin/sh", Linkname: "dash"},
				tar.Header{Typeflag: tar.TypeLink, Name: "./usr/bin/ash", Linkname: "./usr/bin/dash"})))
			if err != nil {
				t.Fatal(err)
			}
			if p.Name != "dash" || p.Version != "0.5-1" || p.Source != "dash-src" || len(p.Files) != 4 {
				t.Fatalf("%+v", p)
			}
			for _, i := range []int{1, 3} {
				if data, err := p.Files[i].Body.ReadAll(); err != nil || string(data) != "program" {
					t.Errorf("%s: %q %v", p.Files[i].Path, data, err)
				}
			}
		})
	}
}

func TestReadRefusesHostileArchives(t *testing.T) {
	for _, c := range []struct {
		name string
		h    []tar.Header
	}{
		{"a path that leads out", []tar.Header{regular("../../etc/passwd", "")}},
		{"a path that leads out in its middle", []tar.Header{regular("./a/../../b", "")}},
		{"an absolute path", []tar.Header{regular("/etc/passwd", "")}},
		{"a device", []tar.Header{{Typeflag: tar.TypeBlock, Name: "dev/sda"}}},
		{"a character device", []tar.Header{{Typeflag: tar.TypeChar, Name: "dev/mem"}}},
		{"a pipe", []tar.Header{{Typeflag: tar.TypeFifo, Name: "pipe"}}},
		{"a hard link out", []tar.Header{{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/shadow"}}},
		{"a hard link to nothing", []tar.Header{{Typeflag: tar.TypeLink, Name: "x", Linkname: "y"}}},
		{"a hard link to a link", []tar.Header{{Typeflag: tar.TypeSymlink, Name: "y", Linkname: "/etc"}, {Typeflag: tar.TypeLink, Name: "x", Linkname: "y"}}},
		{"a whiteout", []tar.Header{regular("etc/.wh.passwd", "")}},
		{"an opaque whiteout", []tar.Header{regular("./etc/.wh..wh..opq", "")}},
		{"a folder called like a whiteout", []tar.Header{regular(".wh.etc/x", "")}},
		{"an owner of no account", []tar.Header{{Typeflag: tar.TypeDir, Name: "x", Uid: 1 << 20}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p, err := read(t, write(t, ".gz", tarball(t, c.h...))); err == nil {
				t.Errorf("taken: %+v", p.Files)
			}
		})
	}
}

// TestReadBoundsSizes gives headers that promise more than there is.
func TestReadBoundsSizes(t *testing.T) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "huge", Size: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	if p, err := read(t, write(t, "", out.Bytes())); err == nil {
		t.Errorf("taken: %+v", p.Files)
	}
	name := filepath.Join(t.TempDir(), "x.deb")
	for _, raw := range []string{
		"", "!<arch>", magic + "debian-binary", magic + strings.Repeat("x", 60),
		magic + fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10s`\n", "data.tar", 0, 0, 0, "100644", "9999999999"),
		string(ar(map[string][]byte{"debian-binary": []byte("2.0\n")}, "debian-binary")),
		string(ar(map[string][]byte{"control.tar.lz4": []byte("x")}, "control.tar.lz4")),
	} {
		if err := os.WriteFile(name, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := read(t, name); err == nil {
			t.Errorf("%.30q taken", raw)
		}
	}
}

// TestMergeOfAHostilePackage goes the whole way: a package that writes through its own
// link is refused by the tree.
func TestMergeOfAHostilePackage(t *testing.T) {
	p, err := read(t, write(t, ".xz", tarball(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "srv", Linkname: "/etc"}, regular("srv/passwd", "evil"))))
	if err != nil {
		t.Fatal(err)
	}
	tr := tree.New(nil)
	var failed error
	for _, e := range p.Files {
		if err := tr.Add(e); err != nil {
			failed = err
		}
	}
	if failed == nil || !strings.Contains(failed.Error(), "is no directory") {
		t.Errorf("got %v", failed)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(ar(map[string][]byte{"debian-binary": []byte("2.0\n"), "control.tar": {}, "data.tar": {}}, "debian-binary", "control.tar", "data.tar"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "x.deb")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := read(t, name)
		if err != nil {
			return
		}
		for _, e := range p.Files {
			if clean, err := tree.Clean(e.Path); err != nil || clean != e.Path {
				t.Errorf("%q came through", e.Path)
			}
		}
	})
}
