package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoroutinesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		src, want string // want: "" for nothing
	}{
		"plain":          {"import \"slices\"\nfunc f(s []int) { slices.Sort(s) }", ""},
		"a goroutine":    {"func f() { go f() }", "begins a goroutine"},
		"in a function":  {"var f = func() { func() { go println() }() }", "begins a goroutine"},
		"a channel":      {"type t struct{ c <-chan int }", "has a channel"},
		"a select":       {"func f() { select {} }", "selects"},
		"a lock":         {"import \"sync\"\nvar l sync.Mutex", "imports sync"},
		"by a name":      {"import s \"sync/atomic\"\nvar n s.Int64", "imports sync/atomic"},
		"a group":        {"import \"golang.org/x/sync/errgroup\"\nvar g errgroup.Group", "imports golang.org/x/sync/errgroup"},
		"a bubble":       {"import \"testing/synctest\"\nvar f = synctest.Test", "imports testing/synctest"},
		"bubble of ours": {"import \"cadre.dev/raced/synctest\"\nvar f = synctest.Test", "imports cadre.dev/raced/synctest"},
	} {
		got, err := concurrent("f.go", "package p\n"+c.src)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case (len(got) == 0) != (c.want == ""), len(got) > 0 && !strings.HasSuffix(got[0], ": "+c.want):
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestFoldersAreLookedThrough(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := look([]string{dir}); err == nil {
		t.Error("a folder without a Go file is taken for one that was looked through")
	}
	write("a.go", "package p\n")
	if got, err := look([]string{dir}); err != nil || len(got) != 0 {
		t.Errorf("a plain file: %q, error %v", got, err)
	}
	write("a_test.go", "package p\nfunc f() { go f() }\n")
	if got, err := look([]string{dir}); err != nil || len(got) != 1 || !strings.Contains(got[0], "a_test.go:2:12") {
		t.Errorf("a test that begins a goroutine: %q, error %v", got, err)
	}
	write("b.go", "no Go\n")
	if _, err := look([]string{dir}); err == nil {
		t.Error("a file that does not parse is passed over")
	}
}
