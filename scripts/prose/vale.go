package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// Alert is one finding of vale.
type Alert struct {
	Check    string
	Message  string
	Line     int
	Span     [2]int // first and last column, from 1
	Severity string
}

// fails: the alert is an error, not a warning.
func (a Alert) fails() bool { return a.Severity == "error" }

// lint runs vale over files and returns the alerts of each.
func lint(ctx context.Context, files []string) (map[string][]Alert, error) {
	out := map[string][]Alert{}
	// A command line has a bound, and the names of all files are longer.
	for some := range slices.Chunk(files, 500) {
		cmd := exec.CommandContext(ctx, "vale", append([]string{"--config", "scripts/vale/vale.ini", "--output", "JSON", "--no-exit"}, some...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("vale: %w: %s%s", err, text, stderr.Bytes())
		}
		if err := parse(text, out); err != nil {
			return nil, err
		}
	}
	for file, alerts := range out {
		if path.Ext(file) != ".go" && path.Ext(file) != ".proto" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(text), "\n")
		out[file] = slices.DeleteFunc(alerts, func(a Alert) bool {
			return a.Line >= 1 && a.Line <= len(lines) && quoted(lines[a.Line-1], a.Span[0])
		})
	}
	return out, nil
}

// quoted reports whether a column of a comment is inside of `code`. vale knows code spans in Markdown
// only.
func quoted(line string, column int) bool {
	before := []rune(line)
	before = before[:max(0, min(column-1, len(before)))]
	_, comment, _ := strings.Cut(string(before), "//")
	return strings.Count(comment, "`")%2 == 1
}

// parse reads vale's JSON: an object of alerts by file.
func parse(text []byte, into map[string][]Alert) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var alerts map[string][]Alert
		switch err := decoder.Decode(&alerts); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("vale printed no JSON: %w", err)
		}
		for file, list := range alerts {
			into[file] = append(into[file], list...)
		}
	}
}

// help is where the tests of the command line keep the help texts of its commands.
const help = "components/cli/internal/command/testdata/*help.txt"

// readable lists the tracked files below paths that the styles are for: comments, pages, and the help
// of commands. Generated code, other data of tests and the changelog of a release are not.
func readable(ctx context.Context, paths ...string) ([]string, error) {
	text, err := exec.CommandContext(ctx, "git", append([]string{"ls-files", "-z", "--"}, paths...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the repository: %w", err)
	}
	var out []string
	for file := range strings.SplitSeq(strings.TrimRight(string(text), "\x00"), "\x00") {
		if isHelp, _ := path.Match(help, file); !isHelp &&
			(!slices.Contains([]string{".go", ".md", ".proto"}, path.Ext(file)) ||
				strings.HasSuffix(file, ".pb.go") || strings.Contains(file, "/testdata/") || file == "CHANGELOG.md") {
			continue
		}
		if _, err := os.Stat(file); err == nil {
			out = append(out, file)
		}
	}
	return out, nil
}
