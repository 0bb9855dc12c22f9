package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed asks.go.txt
var asks string

// overlay writes the woven files, and returns the overlay file with which the go command builds
// them.
func overlay(dir string, files map[string]woven) (string, error) {
	replace := map[string]string{}
	put := func(path string, text []byte) error {
		at := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		replace[path] = at
		return os.WriteFile(at, text, 0o600)
	}
	packages := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := put(path, files[path].text); err != nil {
			return "", err
		}
		packages[filepath.Dir(path)] = files[path].pkg
	}
	for folder, name := range packages {
		if err := put(filepath.Join(folder, "mutant_on.go"), []byte(strings.Replace(asks, "PACKAGE", name, 1))); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// suite is some tests of one package, built once with every place in them.
type suite struct {
	name           string
	folder, binary string
	flags          []string
	// took is the processor time without a broken place; of a slow test, the time in its output.
	took time.Duration
	// reached are the places that it executes; of a slow test, the places of its package's tests.
	reached map[int]bool
}

// slow is the duration above which a test runs alone, after the others, which detect most faults.
const slow = 500 * time.Millisecond

// suites builds the tests of a package: the quick tests, then each slow test, the slowest last.
// only is a pattern of the tests to run in one suite; empty: all. All of them must pass without a
// broken place, or suites returns an error.
func suites(name, folder, dir, over, only string) ([]suite, error) {
	binary := filepath.Join(dir, name+".test")
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", over, "-o", binary, ".")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests of %s: %w\n%s", name, err, out)
	}
	all := suite{name: name, folder: folder, binary: binary}
	if only != "" {
		all.flags = append(all.flags, "-test.run="+only)
	}
	// A failure is not shrunk, and leaves no file behind.
	if rapid, err := regexp.Match(`pgregory\.net/rapid`, sources(folder)); err != nil {
		return nil, err
	} else if rapid {
		all.flags = append(all.flags, "-rapid.nofailfile", "-rapid.shrinktime=1ns")
	}
	out, err := all.measure(dir)
	if err != nil || only != "" {
		return []suite{all}, err
	}
	quick, rest := all, []suite{}
	for name, took := range times(out) {
		if took > slow {
			one := all
			one.flags, one.took = append(slices.Clone(all.flags), "-test.run=^"+name+"$"), took
			rest = append(rest, one)
		}
	}
	if len(rest) == 0 {
		return []suite{all}, nil
	}
	slices.SortStableFunc(rest, func(a, b suite) int { return cmp.Compare(a.took, b.took) })
	var long []string
	for _, one := range rest {
		long = append(long, strings.TrimPrefix(one.flags[len(one.flags)-1], "-test.run="))
	}
	quick.flags = append(slices.Clone(all.flags), "-test.skip="+strings.Join(long, "|"))
	_, err = quick.measure(dir)
	return append([]suite{quick}, rest...), err
}

// times are the durations of the tests. A test with parallel parts does not include them itself.
func times(out string) map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, m := range regexp.MustCompile(`(?m)^ *--- PASS: ([^/\s]+)\S* \(([0-9.]+)s\)`).FindAllStringSubmatch(out, -1) {
		if seconds, err := strconv.ParseFloat(m[2], 64); err == nil {
			all[m[1]] += time.Duration(seconds * float64(time.Second))
		}
	}
	return all
}

// sources are the test files of a folder, concatenated.
func sources(folder string) []byte {
	var out []byte
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		out = append(out, text...)
	}
	return out
}

// measure runs the suite without a broken place, for its time and its reached places.
func (s *suite) measure(dir string) (out string, err error) {
	seen := filepath.Join(dir, "seen")
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		return "", err
	}
	passed, out, took, err := s.run(0, seen, 15*time.Minute, "-test.v")
	s.took = took
	if err != nil || !passed {
		return "", s.unfit(out, err)
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		return "", err
	}
	s.reached = map[int]bool{}
	for line := range strings.Lines(string(text)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return "", err
		}
		s.reached[n] = true
	}
	return out, nil
}

// unfit is why a suite is useless: it would detect every fault.
func (s suite) unfit(out string, err error) error {
	return errors.Join(fmt.Errorf("the tests of %s fail where nothing is broken:\n%s", s.name, out), err)
}

// patience is the processor time of a suite after which a place that makes it loop counts as
// detected. Other load on the machine does not count.
func (s suite) patience() time.Duration { return 20*time.Second + 4*s.took }

// waits is the limit of a suite by the clock, in multiples of its patience: a blocked suite uses no
// processor.
const waits = 10

// run runs the suite with one place broken, 0: none, and returns its processor time. A suite that
// exhausts the memory fails as well.
func (s suite) run(broken int, seen string, patience time.Duration, more ...string) (passed bool, out string, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), waits*patience+10*time.Second)
	defer cancel()
	script := fmt.Sprintf(`ulimit -v 6000000; ulimit -t %d; exec "$0" "$@"`, int(patience.Seconds()))
	args := slices.Concat([]string{"-c", script, s.binary, "-test.failfast", "-test.timeout=" + (waits * patience).String()}, s.flags, more)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), "CADRE_MUTANT="+strconv.Itoa(broken), "CADRE_MUTANTS_SEEN="+seen)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err = cmd.Run()
	if cmd.ProcessState != nil {
		took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return false, b.String(), took, nil
	}
	return err == nil, b.String(), took, err
}
