package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestCountsMayFallAndNotRise(t *testing.T) {
	recorded := map[string]int{"a": 2, "b": 1, "docs/c.md": 3}
	for name, c := range map[string]struct {
		now           map[string]int
		worse, better []string
	}{
		"the same":    {now: map[string]int{"a": 2, "b": 1, "docs/c.md": 3}},
		"one more":    {now: map[string]int{"a": 3, "b": 1, "docs/c.md": 3}, worse: []string{"a"}},
		"a new place": {now: map[string]int{"a": 2, "b": 1, "docs/c.md": 3, "d": 1}, worse: []string{"d"}},
		"one is done": {now: map[string]int{"a": 2, "docs/c.md": 1}, better: []string{"b: 0 errors, 1 are recorded", "docs/c.md: 1 errors, 3 are recorded"}},
	} {
		worse, better := compare(recorded, c.now)
		if !slices.Equal(worse, c.worse) || !slices.Equal(better, c.better) {
			t.Errorf("%s: worse %q, better %q; want %q, %q", name, worse, better, c.worse, c.better)
		}
	}
}

func TestTheRecordIsReadAsItWasWritten(t *testing.T) {
	counts := map[string]int{"components/core/group": 12, "docs/reference/kv.md": 1}
	if got, err := decode(encode(counts)); err != nil || !maps.Equal(got, counts) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"x docs/reference/kv.md\n", "3\n", "0 docs/reference/kv.md\n", "-1 a\n"} {
		if _, err := decode(bad); err == nil || !strings.Contains(err.Error(), unfinished) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestOnlyErrorsCount: a long sentence is a warning. A Go file counts for its folder, a page for itself.
func TestOnlyErrorsCount(t *testing.T) {
	alerts := map[string][]Alert{}
	text := `{"a/b/c.go":[{"Check":"Cadre.Words","Line":3,"Severity":"error"},{"Check":"Cadre.Length","Severity":"warning"}],"docs/x.md":[{"Severity":"error"}]}`
	if err := parse([]byte(text+"\n{}\n"), alerts); err != nil {
		t.Fatal(err)
	}
	if got, want := count(alerts), (map[string]int{"a/b": 1, "docs/x.md": 1}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := parse([]byte("no JSON"), alerts); err == nil {
		t.Error("text that is no JSON is read")
	}
}

func TestCodeInACommentIsNoProse(t *testing.T) {
	for _, c := range []struct {
		line, word string
		want       bool
	}{
		{"// `told` is a field", "told", true},
		{"\tx := 1 // `a` is told", "told", false},
		{"`} // told", "told", false}, // the end of a text of several lines
		{"// ü `told`", "told", true},
	} {
		column := 1 + len([]rune(c.line[:strings.Index(c.line, c.word)]))
		if got := quoted(c.line, column); got != c.want {
			t.Errorf("%q in %q: %v, want %v", c.word, c.line, got, c.want)
		}
	}
}

// TestProseOfPagesAndHelpIsRead: the changelog, generated code and data of tests are left out, the help of commands is not.
func TestProseOfPagesAndHelpIsRead(t *testing.T) {
	t.Chdir("../..")
	files, err := readable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{
		"README.md": true, "scripts/prose/main.go": true, "proto/cadre/api/v1/api.proto": true,
		"components/cli/internal/command/testdata/group_apply_help.txt": true,
		"components/cli/internal/command/testdata/group_list.txt":       false,
		"proto/cadre/api/v1/api.pb.go":                                  false, "CHANGELOG.md": false,
	} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		if slices.Contains(files, file) != want {
			t.Errorf("%s is read: %v, want %v", file, !want, want)
		}
	}
}
