package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json (`go doc test2json`, `go help buildjson`).
type event struct {
	Action     string
	Package    string
	Test       string
	ImportPath string // of a build
	Output     string
	Elapsed    float64 // in seconds
	// FailedBuild is the ImportPath of the build that kept the package from running.
	FailedBuild string
}

// result is how a test or a package ended: "" not at all, else "pass", "fail" or "skip".
type result string

// run is everything that was run, in the order in which it began.
type run struct {
	attempts []*attempt
	builds   map[string]*strings.Builder // output of each failed build, by its ImportPath
}

// attempt is one start of a package's tests. A package that is tried again has several.
type attempt struct {
	pkg         string
	result      result
	elapsed     float64
	failedBuild string
	tests       map[string]*test
	order       []string        // of tests
	output      strings.Builder // everything that it printed
	outside     strings.Builder // output outside of tests
}

// test is one test or subtest in one attempt.
type test struct {
	result result
	took   float64 // in seconds
	output strings.Builder
}

// read adds the events of one lane, whose name follows the names of its packages. A package that two lanes run is two:
// that a test passes in one lane does not mend it in the other.
func (r *run) read(lane string, in io.Reader) error {
	open := map[string]*attempt{}
	for dec := json.NewDecoder(in); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("after %d packages: %w", len(r.attempts), err)
		}
		if e.Action == "build-output" {
			r.build(e.ImportPath).WriteString(e.Output)
			continue
		}
		if e.Package == "" {
			continue
		}
		if e.Action == "start" || open[e.Package] == nil {
			name := e.Package
			if lane != "" {
				name += " (" + lane + ")"
			}
			open[e.Package] = &attempt{pkg: name, tests: map[string]*test{}}
			r.attempts = append(r.attempts, open[e.Package])
		}
		open[e.Package].take(e)
	}
}

func (r *run) build(path string) *strings.Builder {
	if r.builds == nil {
		r.builds = map[string]*strings.Builder{}
	}
	if r.builds[path] == nil {
		r.builds[path] = &strings.Builder{}
	}
	return r.builds[path]
}

func (a *attempt) take(e event) {
	var t *test
	if e.Test != "" {
		if t = a.tests[e.Test]; t == nil {
			t = &test{}
			a.tests[e.Test] = t
			a.order = append(a.order, e.Test)
		}
	}
	switch e.Action {
	case "output":
		a.output.WriteString(e.Output)
		if t != nil {
			t.output.WriteString(e.Output)
		} else {
			a.outside.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		if t != nil {
			t.result, t.took = result(e.Action), e.Elapsed
			return
		}
		a.result, a.elapsed, a.failedBuild = result(e.Action), e.Elapsed, e.FailedBuild
	}
}

// explained reports whether tests alone say why the attempt failed: one of them failed,
// and each that began has ended. A panic, an exit or a failed build is not explained.
func (a *attempt) explained() bool {
	failed := false
	for _, t := range a.tests {
		if t.result == "" {
			return false
		}
		failed = failed || t.result == "fail"
	}
	return failed
}

// dying is the end of the output of an attempt with tests that never ended. go test books a panic's
// text to the test that printed last, which may have passed.
func (a *attempt) dying() string {
	const atMost = 200
	unended := false
	for _, t := range a.tests {
		unended = unended || t.result == ""
	}
	if !unended {
		return ""
	}
	lines := strings.SplitAfter(a.output.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.Join(lines[i:min(len(lines), i+atMost)], "")
		}
	}
	return strings.Join(lines[max(0, len(lines)-atMost):], "")
}

// said is the output of a test and its subtests.
func (a *attempt) said(name string) string {
	var out strings.Builder
	for _, other := range a.order {
		if other == name || strings.HasPrefix(other, name+"/") {
			out.WriteString(a.tests[other].output.String())
		}
	}
	return out.String()
}

var logged = regexp.MustCompile(`(?m)^ +[\w.-]+\.go:\d+:[ \t]*(.*)$`)

// reason is the test's last log line, which is the argument of Skip.
func (t *test) reason() string {
	lines := logged.FindAllStringSubmatch(t.output.String(), -1)
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[len(lines)-1][1])
}

func (r *run) writeLog(out io.Writer) {
	for _, path := range slices.Sorted(maps.Keys(r.builds)) {
		_, _ = io.WriteString(out, r.builds[path].String())
	}
	for _, a := range r.attempts {
		_, _ = io.WriteString(out, a.output.String())
	}
}
