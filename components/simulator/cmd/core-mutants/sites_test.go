package main

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachSiteIsBrokenByItself: each mutant is Go, differs from the file and from the others.
func TestEachSiteIsBrokenByItself(t *testing.T) {
	core := t.TempDir()
	text := "package p\n\nfunc f(a, b int) (n int) {\n\tif a < b && b != 3 {\n\t\tn = a\n\t}\n\tn++\n\treturn n\n}\n"
	if err := os.Mkdir(filepath.Join(core, "p"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"f.go": text, "f_test.go": "package p\n"} {
		if err := os.WriteFile(filepath.Join(core, "p", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := sites(core, []string{"p"})
	if err != nil {
		t.Fatal(err)
	}
	// Three operators, the condition twice, two statements.
	if len(all) != 7 {
		t.Errorf("%d sites: %v", len(all), all)
	}
	seen := map[string]site{}
	for _, s := range all {
		broken, err := s.mutated()
		if err != nil {
			t.Fatal(err)
		}
		again, err := format.Source(broken)
		if err != nil || string(broken) == text {
			t.Errorf("%s: %v\n%s", s, err, again)
		}
		if other, twice := seen[string(broken)]; twice {
			t.Errorf("%s is the same as %s", s, other)
		}
		seen[string(broken)] = s
	}
	if _, err := sites(core, []string{"q"}); err == nil || !strings.Contains(err.Error(), `"q"`) {
		t.Errorf("a package that is not there: %v", err)
	}
}
