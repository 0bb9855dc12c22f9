package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestOnlyErrorsFail: a long sentence is a warning, which is printed on request.
func TestOnlyErrorsFail(t *testing.T) {
	alerts := map[string][]Alert{}
	text := `{"a/b/c.go":[{"Line":3,"Severity":"error","Message":"name the noun"},{"Line":5,"Severity":"warning","Message":"long"}],"docs/x.md":[{"Line":1,"Severity":"error","Message":"who?"}]}`
	if err := parse([]byte(text+"\n{}\n"), alerts); err != nil {
		t.Fatal(err)
	}
	failures := "a/b/c.go:3: name the noun\ndocs/x.md:1: who?\n"
	for warnings, want := range map[bool]string{
		false: failures,
		true:  strings.Replace(failures, "docs", "a/b/c.go:5: warning: long\ndocs", 1),
	} {
		var out strings.Builder
		if failed := printAlerts(&out, alerts, warnings); failed != 2 || out.String() != want {
			t.Errorf("%d errors: %q, want %q", failed, out.String(), want)
		}
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
