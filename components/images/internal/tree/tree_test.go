package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func file(name, text string) Entry {
	return Entry{Path: name, Kind: File, Mode: 0o644, Body: Bytes([]byte(text)), Origin: "a package"}
}

func link(name, to string) Entry {
	return Entry{Path: name, Kind: Symlink, Target: to, Origin: "a package"}
}

func TestAddRefusesWhatLeadsOut(t *testing.T) {
	for _, e := range []Entry{
		file("../etc/passwd", ""), file("a/../../b", ""), file("/etc/passwd", ""), file("a\x00b", ""), file(`a\b`, ""), file("", ""), file("./", ""),
		file(strings.Repeat("a/", 600), ""), link("a", ""), link("a", strings.Repeat("x", 2000)), link("a", "b\x00"), {Path: "dev/sda", Mode: 0o644},
	} {
		tr := New(nil)
		if err := tr.Add(e); err == nil {
			t.Errorf("%.40q with target %.40q was taken", e.Path, e.Target)
		}
		if n := len(tr.Entries()); n != 0 {
			t.Errorf("%.40q left %d files", e.Path, n)
		}
	}
}

// TestAddWritesThroughNoLink: a package that brings a link to a folder and then a file
// "in" it would write elsewhere when unpacked.
func TestAddWritesThroughNoLink(t *testing.T) {
	for _, c := range []struct {
		name  string
		below []Entry
		then  []Entry
	}{
		{"in one layer", nil, []Entry{link("srv/x", "/etc"), file("srv/x/passwd", "evil")}},
		{"over layers", []Entry{link("srv/x", "/etc")}, []Entry{file("srv/x/passwd", "evil")}},
		{"a link where files are", nil, []Entry{file("srv/x/a", ""), link("srv/x", "/etc")}},
		{"through a file", nil, []Entry{file("srv/x", ""), file("srv/x/a", "")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lower := New(nil)
			for _, e := range c.below {
				if err := lower.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			tr, failed := New(lower), false
			for _, e := range c.then {
				failed = failed || tr.Add(e) != nil
			}
			if !failed {
				t.Error("taken")
			}
		})
	}
}

func TestAddFollowsAMergedUsr(t *testing.T) {
	tr := New(nil)
	for _, l := range []Entry{link("bin", "usr/bin"), link("var/run", "/run")} {
		if err := tr.Put(l); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []Entry{{Path: "bin/", Kind: Directory, Mode: 0o755}, file("./bin/sh", "sh"), file("var/run/x", ""), {Path: "var/run", Kind: Directory, Mode: 0o755}} {
		if err := tr.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"usr/bin/sh", "run/x"} {
		if _, ok := tr.Lookup(want); !ok {
			t.Errorf("no %s", want)
		}
	}
	if e, ok := tr.Find("/bin/sh"); !ok || e.Path != "usr/bin/sh" {
		t.Errorf("/bin/sh is %v", e.Path)
	}
}

func TestTwoPackagesThatDisagree(t *testing.T) {
	tr := New(nil)
	if err := tr.Add(file("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := tr.Add(file("a", "1")); err != nil {
		t.Errorf("the same file: %v", err)
	}
	if err := tr.Add(file("a", "2")); !errors.Is(err, ErrConflict) {
		t.Errorf("got %v", err)
	}
	if err := New(tr).Add(file("a", "2")); !errors.Is(err, ErrConflict) {
		t.Errorf("over a layer: %v", err)
	}
	if err := tr.Put(file("a", "3")); err != nil {
		t.Errorf("the recipe's own: %v", err)
	}
}

func TestSetIDBitsAreNotKept(t *testing.T) {
	tr := New(nil)
	e := file("su", "x")
	e.Mode = 0o6755
	if err := tr.Add(e); err != nil {
		t.Fatal(err)
	}
	if got, _ := tr.Lookup("su"); got.Mode != 0o755 {
		t.Errorf("mode %o", got.Mode)
	}
}

func TestFindEndsInALoop(t *testing.T) {
	tr := New(nil)
	for _, e := range []Entry{link("a", "b"), link("b", "a")} {
		if err := tr.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := tr.Find("a"); ok {
		t.Error("found")
	}
}

func TestTarDoesNotDependOnTheOrder(t *testing.T) {
	spool := filepath.Join(t.TempDir(), "spool")
	if err := os.WriteFile(spool, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := func(name string) Entry {
		return Entry{Path: name, Kind: File, Mode: 0o644, Body: Body{File: spool, Offset: 2, Size: 3}}
	}
	entries := []Entry{file("b/c", "hello"), shared("z"), shared("y"), link("l", "b/c"), {Path: "b", Kind: Directory, Mode: 0o700, UID: 9}}
	write := func(reverse bool) []byte {
		tr := New(nil)
		for i := range entries {
			e := entries[i]
			if reverse {
				e = entries[len(entries)-1-i]
			}
			if err := tr.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if err := tr.WriteTar(&out, time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	first := write(false)
	if !bytes.Equal(first, write(true)) {
		t.Error("another order, other bytes")
	}
	var got []string
	in := tar.NewReader(bytes.NewReader(first))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(in)
		got = append(got, string(h.Typeflag)+h.Name+h.Linkname+string(data))
		if h.Uname != "" || h.ModTime.Nanosecond() != 0 {
			t.Errorf("%s carries %q %s", h.Name, h.Uname, h.ModTime)
		}
	}
	want := "5b/ 0b/chello 2lb/c 0y234 1zy"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
}

func TestUnpack(t *testing.T) {
	lower := New(nil)
	if err := lower.Add(file("a/b", "below")); err != nil {
		t.Fatal(err)
	}
	tr := New(lower)
	for _, e := range []Entry{file("a/c", "above"), link("l", "/etc")} {
		if err := tr.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := tr.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a/b": "below", "a/c": "above"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}
