package rootfs

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cadre.dev/local/internal/imagetest"
)

type entry = imagetest.Entry

var (
	file, dir, link, hard = imagetest.File, imagetest.Dir, imagetest.Link, imagetest.Hard
)

// box is an empty root in a folder with another file next to it.
func box(t *testing.T) (*os.Root, string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: unpacking images needs root, for their owners")
	}
	base := t.TempDir()
	if err := os.WriteFile(filepath.Join(base, "outside"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(base, "root")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, path
}

func unpack(t *testing.T, root *os.Root, limits Limits, layers ...[]entry) error {
	t.Helper()
	u := NewUnpacker(root, limits)
	for _, l := range layers {
		if err := u.Layer(bytes.NewReader(imagetest.Archive(t, l...))); err != nil {
			return err
		}
	}
	return nil
}

// tree lists the entries in path: "name mode owner content-or-target".
func tree(t *testing.T, path string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == path {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(path, at)
		st := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprintf("%s %s %d:%d", name, info.Mode(), st.Uid, st.Gid)
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			text += " " + string(raw)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			text += " " + to
		}
		out = append(out, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLayersAreStacked(t *testing.T) {
	for name, c := range map[string]struct {
		layers [][]entry
		want   []string
	}{
		"files, owners, modes, parents that nobody named": {
			[][]entry{{imagetest.Owned(file("a/b/su", 0o4755, "x"), 5, 6), dir("t", 0o1777, 0, 0), link("l", "/a/b"), imagetest.Owned(link("m", "nowhere"), 7, 8)}},
			[]string{"a drwxr-xr-x 0:0", "a/b drwxr-xr-x 0:0", "a/b/su urwxr-xr-x 5:6 x", "l Lrwxrwxrwx 0:0 /a/b", "m Lrwxrwxrwx 7:8 nowhere", "t dtrwxrwxrwx 0:0"},
		},
		"a later file wins, a directory keeps what it holds": {
			[][]entry{{dir("d", 0o755, 0, 0), file("d/a", 0o644, "1"), file("d/b", 0o644, "1")}, {dir("./d/", 0o700, 3, 3), file("./d/a", 0o600, "2")}},
			[]string{"d drwx------ 3:3", "d/a -rw------- 0:0 2", "d/b -rw-r--r-- 0:0 1"},
		},
		"a whiteout hides a lower layer's": {
			[][]entry{{file("d/a", 0o644, "1"), file("d/b/c", 0o644, "1"), file("e", 0o644, "1")}, {file("d/.wh.b", 0, ""), file(".wh.e", 0, ""), file(".wh.absent", 0, "")}},
			[]string{"d drwxr-xr-x 0:0", "d/a -rw-r--r-- 0:0 1"},
		},
		"a whiteout leaves what its own layer has, before and after": {
			[][]entry{{file("d/a", 0o644, "1"), file("f", 0o644, "1")}, {file("d/b", 0o644, "2"), file("f", 0o644, "2"), file(".wh.d", 0, ""), file(".wh.f", 0, ""), file("d/c", 0o644, "2")}},
			[]string{"d drwxr-xr-x 0:0", "d/b -rw-r--r-- 0:0 2", "d/c -rw-r--r-- 0:0 2", "f -rw-r--r-- 0:0 2"},
		},
		"an opaque whiteout hides a whole directory": {
			[][]entry{{file("d/a", 0o644, "1"), file("d/s/x", 0o644, "1"), dir("d/keep", 0o750, 0, 0)}, {file("d/s/y", 0o644, "2"), file("d/.wh..wh..opq", 0, ""), file("d/z", 0o644, "2"), file("d/.wh..wh.plnk", 0, "")}},
			[]string{"d drwxr-xr-x 0:0", "d/s drwxr-xr-x 0:0", "d/s/y -rw-r--r-- 0:0 2", "d/z -rw-r--r-- 0:0 2"},
		},
		"a hard link to a lower layer's file": {
			[][]entry{{file("bin/sh", 0o755, "sh")}, {hard("usr/sh", "bin/sh"), hard("bin/sh", "bin/sh")}},
			[]string{"bin drwxr-xr-x 0:0", "bin/sh -rwxr-xr-x 0:0 sh", "usr drwxr-xr-x 0:0", "usr/sh -rwxr-xr-x 0:0 sh"},
		},
		"directories that are symlinks, absolute ones too, and kinds that change": {
			[][]entry{{dir("usr/lib", 0o755, 0, 0), link("lib", "usr/lib"), link("var/run", "/run"), dir("run", 0o755, 0, 0), file("x", 0o644, "1"), dir("y/z", 0o755, 0, 0)},
				{file("lib/a", 0o644, "2"), file("var/run/b", 0o644, "2"), dir("x", 0o755, 0, 0), file("y", 0o644, "2")}},
			[]string{"lib Lrwxrwxrwx 0:0 usr/lib", "run drwxr-xr-x 0:0", "run/b -rw-r--r-- 0:0 2", "usr drwxr-xr-x 0:0", "usr/lib drwxr-xr-x 0:0", "usr/lib/a -rw-r--r-- 0:0 2",
				"var drwxr-xr-x 0:0", "var/run Lrwxrwxrwx 0:0 /run", "x drwxr-xr-x 0:0", "y -rw-r--r-- 0:0 2"},
		},
		"devices below /dev are left out": {
			[][]entry{{dir("dev", 0o755, 0, 0), {Header: tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3}}}},
			[]string{"dev drwxr-xr-x 0:0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, path := box(t)
			if err := unpack(t, root, DefaultLimits, c.layers...); err != nil {
				t.Fatal(err)
			}
			if got := tree(t, path); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestTimesAndAttributesAreKept(t *testing.T) {
	root, path := box(t)
	when := time.Unix(1700000000, 0)
	d, f := dir("d", 0o755, 0, 0), file("d/f", 0o755, "x")
	d.ModTime, f.ModTime = when, when
	f.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}
	f.Format = tar.FormatPAX
	if err := unpack(t, root, DefaultLimits, []entry{d, f}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "d/f"} {
		if info, err := os.Stat(filepath.Join(path, name)); err != nil || !info.ModTime().Equal(when) {
			t.Errorf("%s: %v, %v", name, info.ModTime(), err)
		}
	}
	value := make([]byte, 64)
	n, err := unix.Getxattr(filepath.Join(path, "d/f"), "security.capability", value)
	if err != nil || string(value[:n]) != f.PAXRecords["SCHILY.xattr.security.capability"] {
		t.Errorf("capability of the file: %q, %v", value[:max(n, 0)], err)
	}
}

// TestHostileArchivesAreRefused, and files outside stay unchanged.
func TestHostileArchivesAreRefused(t *testing.T) {
	with := func(e entry, key, value string) entry {
		e.PAXRecords, e.Format = map[string]string{"SCHILY.xattr." + key: value}, tar.FormatPAX
		return e
	}
	device := func(kind byte, name string) entry { return entry{Header: tar.Header{Typeflag: kind, Name: name}} }
	var many []entry
	for i := range 60 {
		many = append(many, file(fmt.Sprint(i), 0o644, ""))
	}
	var long []entry
	for i := range 40 {
		long = append(long, file(strings.Repeat("x", 200)+"/"+strings.Repeat("y", 150)+fmt.Sprint(i), 0o644, ""))
	}
	loop := []entry{link("a", "b"), link("b", "a"), file("a/x", 0o644, "x")}
	small := Limits{Bytes: 100, Entries: 50}
	for name, c := range map[string]struct {
		layer []entry
		want  string // "" when it is not refused but harmless
	}{
		"up":                       {[]entry{file("../outside", 0o644, "x")}, "out of the image"},
		"up from within":           {[]entry{file("a/../../outside", 0o644, "x")}, "out of the image"},
		"absolute":                 {[]entry{file("/outside", 0o644, "x")}, "out of the image"},
		"through a link up":        {[]entry{link("up", ".."), file("up/outside", 0o644, "x")}, ""},
		"through an absolute link": {[]entry{link("abs", "/../../tmp"), file("abs/outside", 0o644, "x")}, ""},
		"onto a link":              {[]entry{link("l", "../outside"), file("l", 0o644, "x")}, ""},
		"a directory onto a link":  {[]entry{link("l", ".."), dir("l", 0o777, 9, 9), file("l/outside", 0o644, "x")}, ""},
		"hard link up":             {[]entry{hard("h", "../outside")}, "out of the image"},
		"hard link through a link": {[]entry{link("up", ".."), hard("h", "up/outside")}, "no such file"},
		"hard link to nothing":     {[]entry{hard("h", "nothing")}, "no such file"},
		"whiteout up":              {[]entry{file("../.wh.outside", 0, "")}, "out of the image"},
		"whiteout through a link":  {[]entry{link("up", ".."), file("up/.wh.outside", 0, "")}, ""},
		"whiteout of the parent":   {[]entry{file("a/.wh...", 0, "")}, "whiteout of nothing"},
		"whiteout of itself":       {[]entry{file("a/.wh..", 0, "")}, "whiteout of nothing"},
		"opaque through a link":    {[]entry{link("up", ".."), file("up/.wh..wh..opq", 0, "")}, ""},
		"links in a circle":        {loop, "symlinks"},
		"the root is a file":       {[]entry{file(".", 0o644, "x")}, "root of an image"},
		"a device":                 {[]entry{device(tar.TypeChar, "sda")}, "a device"},
		"a device that is a whiteout of overlayfs": {[]entry{device(tar.TypeChar, "etc/passwd")}, "a device"},
		"a pipe":                             {[]entry{device(tar.TypeFifo, "p")}, "a device"},
		"an unknown kind":                    {[]entry{device('Z', "z")}, "not taken"},
		"overlay attributes":                 {[]entry{with(file("a", 0o644, ""), "trusted.overlay.redirect", "/../..")}, "not taken"},
		"user overlay's too":                 {[]entry{with(file("a", 0o644, ""), "system.posix_acl_access", "x")}, "not taken"},
		"large attribute":                    {[]entry{with(file("a", 0o644, ""), "user.x", strings.Repeat("x", 70000))}, "larger than"},
		"owner out of range":                 {[]entry{imagetest.Owned(file("a", 0o644, ""), -1, 0)}, "out of range"},
		"too large":                          {[]entry{file("a", 0o644, strings.Repeat("x", 60)), file("b", 0o644, strings.Repeat("x", 60))}, "too large"},
		"too many":                           {many, "too many entries"},
		"too many folders that nobody names": {[]entry{file(strings.Repeat("a/", 40)+"x", 0o644, ""), file(strings.Repeat("b/", 40)+"x", 0o644, "")}, "too many entries"},
		"too many folders of whiteouts":      {[]entry{file(strings.Repeat("a/", 40)+".wh.x", 0o644, ""), file(strings.Repeat("b/", 40)+".wh.x", 0o644, "")}, "too many entries"},
		"too large attributes together":      {[]entry{with(file("a", 0o644, ""), "user.x", strings.Repeat("x", 60)), with(file("b", 0o644, ""), "user.x", strings.Repeat("x", 60))}, "too large"},
		"too large links together":           {[]entry{link("a", strings.Repeat("x", 60)), link("b", strings.Repeat("x", 60))}, "too large"},
		"too long paths together":            {long, "too long together"},
		"as deep as it goes":                 {[]entry{file(strings.Repeat("a/", 39)+"x", 0o644, "")}, ""},
		"a path without end":                 {[]entry{file(strings.Repeat("a/", 3000)+"x", 0o644, "")}, "longer than"},
		"a name without end":                 {[]entry{file(strings.Repeat("a", 300), 0o644, "")}, "too long"},
		"a link without end":                 {[]entry{link("l", strings.Repeat("a/", 3000))}, "too long"},
		"a link to nothing":                  {[]entry{link("l", "")}, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			root, path := box(t)
			err := unpack(t, root, small, c.layer)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
			base := filepath.Dir(path)
			if raw, err := os.ReadFile(filepath.Join(base, "outside")); err != nil || string(raw) != "outside" {
				t.Errorf("what lies outside is %q, %v", raw, err)
			}
			if entries, err := os.ReadDir(base); err != nil || len(entries) != 2 {
				t.Errorf("beside the root: %v, %v", entries, err)
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		root, _ := box(t)
		raw := imagetest.Archive(t, file("a", 0o644, strings.Repeat("x", 2000)))
		if err := NewUnpacker(root, DefaultLimits).Layer(bytes.NewReader(raw[:1000])); err == nil {
			t.Error("half an archive is taken")
		}
	})
}

func TestResolve(t *testing.T) {
	root, _ := box(t)
	if err := unpack(t, root, DefaultLimits, []entry{
		dir("run", 0o755, 0, 0), link("var/run", "/run"), link("deep/up", "../../../../run"), link("chain", "deep/up"), link("etc/hosts", "/proc/self/../../../x"),
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/": ".", "": ".", "/..": ".", "/var/run/x/y": "run/x/y", "/chain/z": "run/z", "//run/./a/../b": "run/b", "/absent/../../y": "y", "/etc/hosts": "x",
	} {
		if got, err := Resolve(root, name); err != nil || got != want {
			t.Errorf("Resolve(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestDeepPathsAreRefused, written so or made so by symlinks.
func TestDeepPathsAreRefused(t *testing.T) {
	deepest := strings.Repeat("a/", 127) + "x"
	half := strings.Repeat("h/", 64) + "x"
	round := link("r", strings.Repeat("z/../", 700)+"z")
	for name, c := range map[string]struct {
		layer []entry
		want  string
	}{
		"128 parts":                   {[]entry{file(deepest, 0o644, "")}, ""},
		"129 parts":                   {[]entry{file("b/"+deepest, 0o644, "")}, "more than 128 parts"},
		"a folder of 129 parts":       {[]entry{dir("b/"+deepest, 0o755, 0, 0)}, "more than 128 parts"},
		"a hard link to it":           {[]entry{hard("x", "b/"+deepest)}, "more than 128 parts"},
		"a link that makes it deeper": {[]entry{dir(half, 0o755, 0, 0), link("l", half), file("l/"+half, 0o644, "")}, "more than 128 parts"},
		"a link round and round":      {[]entry{dir("z", 0o755, 0, 0), round, file("r/x", 0o644, "")}, "with its symlinks"},
	} {
		t.Run(name, func(t *testing.T) {
			root, _ := box(t)
			if err := unpack(t, root, DefaultLimits, c.layer); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
		})
	}
}
