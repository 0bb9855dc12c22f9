package main

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const broken = `package p

import "fmt"

func f(a, b int) (n int) {
	if a < b &&
		b != 3 {
		n = a
	}
	n++
	return n
}

func asked() bool { fmt.Print("asked "); return true }

func answers() string {
	return fmt.Sprint(f(1, 2), f(1, 3), f(2, 2), f(2, 1), true || asked(), false || asked(), 2 <= 2, 2 >= 2, 3 > 3)
}
`

const asking = `package p

import "testing"

func TestAnswers(t *testing.T) { t.Log(answers()) }
`

// TestEachMutantBreaksOnePlace: number 0 breaks nothing, and each other number breaks its own
// place only.
func TestEachMutantBreaksOnePlace(t *testing.T) {
	core := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "p/f.go": broken, "p/f_test.go": asking} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(core, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(core, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	all, files, err := weave(core, []string{"p"})
	if err != nil {
		t.Fatal(err)
	}
	text := files[filepath.Join(core, "p", "f.go")].text
	if _, err := format.Source(text); err != nil || strings.Count(string(text), "\n") != strings.Count(broken, "\n") {
		t.Errorf("%v\n%s", err, text)
	}
	dir := t.TempDir()
	over, err := overlay(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	found, err := suites("p", filepath.Join(core, "p"), dir, over, "")
	if err != nil {
		t.Fatal(err)
	}
	// Answers, by change and line. Without -v, fmt.Print of a passing test prints nothing.
	want := map[string]string{
		"p/f.go:6 the condition never holds":  "1 1 1 1 true true true true false",
		"p/f.go:6 the condition always holds": "2 2 3 3 true true true true false",
		"p/f.go:6 && becomes ||":              "2 2 3 3 true true true true false",
		"p/f.go:6 < becomes <=":               "2 1 3 1 true true true true false",
		"p/f.go:7 != becomes ==":              "1 2 1 1 true true true true false",
		"p/f.go:8 the statement is dropped":   "1 1 1 1 true true true true false",
		"p/f.go:10 the statement is dropped":  "1 0 0 0 true true true true false",
		"p/f.go:14 the statement is dropped":  "2 1 1 1 true true true true false",
		"p/f.go:17 <= becomes <":              "2 1 1 1 true true false true false",
		"p/f.go:17 >= becomes >":              "2 1 1 1 true true true false false",
		"p/f.go:17 > becomes >=":              "2 1 1 1 true true true true true",
	}
	answers := func(n int) string {
		passed, out, _, err := found[0].run(n, "", found[0].patience(), "-test.v")
		if err != nil || !passed {
			t.Fatalf("%d: %v\n%s", n, err, out)
		}
		_, after, _ := strings.Cut(out, "f_test.go:5: ")
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	if got := answers(0); got != "2 1 1 1 true true true true false" {
		t.Errorf("nothing is broken: %s", got)
	}
	ors := 0
	for _, s := range all {
		if !found[0].reached[s.n] {
			t.Errorf("%s is not reached", s)
		}
		if s.what == "|| becomes &&" {
			ors++
			continue
		}
		if got := answers(s.n); got != want[s.String()] {
			t.Errorf("%s: %s, want %s", s, got, want[s.String()])
		}
	}
	if len(all) != len(want)+2 || ors != 2 {
		t.Errorf("%d places: %v", len(all), all)
	}
	if _, _, err := weave(core, []string{"q"}); err == nil || !strings.Contains(err.Error(), `"q"`) {
		t.Errorf("a package that is not there: %v", err)
	}
}

// TestAFailingTestDetectsNoMutant: a test that always fails would detect every fault.
func TestAFailingTestDetectsNoMutant(t *testing.T) {
	core := t.TempDir()
	t.Setenv("GOWORK", "off")
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "f.go": "package p\n", "f_test.go": "package p\n\nimport \"testing\"\n\nfunc TestNever(t *testing.T) { t.Error() }\n"} {
		if err := os.WriteFile(filepath.Join(core, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	over, err := overlay(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := suites("p", core, dir, over, ""); err == nil || !strings.Contains(err.Error(), "where nothing is broken") {
		t.Errorf("it is taken: %v", err)
	}
}

// TestPartsCountForTheirTest, also the parts that ran in parallel.
func TestPartsCountForTheirTest(t *testing.T) {
	got := times("=== RUN   TestA\n--- PASS: TestA (0.25s)\n    --- PASS: TestA/one_thing (1.50s)\n        --- PASS: TestA/one_thing/deep (0.25s)\n--- PASS: TestB (0.01s)\nPASS\n")
	if len(got) != 2 || got["TestA"] != 2*time.Second || got["TestB"] != 10*time.Millisecond {
		t.Errorf("%v", got)
	}
}
