// Command core-mutants breaks the deciding code of core, one place at a time, and counts how often
// a test detects the fault. It runs core's own tests first, then a few seeds and the scenarios of
// the simulator. The code itself stays unchanged. The tests are built once from a copy in which
// every place checks at run time whether it is the broken place.
//
// Usage: core-mutants [-n 100] [-seed 1] [-packages operation,rollout,policy] [-out file], in
// components/simulator.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "core-mutants:", err)
		os.Exit(1)
	}
}

// Result is the result of a run; the report of the simulator reads it.
type Result struct {
	// Places is the number of places, Tried the number of broken places.
	Places   int      `json:"places"`
	Tried    int      `json:"tried"`
	Killed   int      `json:"killed"`
	Survived []string `json:"survived"`
	Seed     uint64   `json:"seed"`
}

func run() error {
	n := flag.Int("n", 100, "how many places to break; 0: all")
	seed := flag.Uint64("seed", 1, "which ones")
	packages := flag.String("packages", "operation,rollout,policy", "packages of core to break, with commas between")
	at := flag.String("at", "", "break the places of one file or line alone, such as rollout/order.go or rollout/order.go:17; empty: any")
	own := flag.Bool("own", false, "ask nobody but the tests of a place's own package that take no longer than half a second: the first look for tests to write")
	out := flag.String("out", "", "where to write the result as JSON; empty: nowhere")
	flag.Parse()
	core, err := filepath.Abs("../core")
	if err != nil {
		return err
	}
	names := strings.Split(*packages, ",")
	all, files, err := weave(core, names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "core-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	who, err := notice(core, dir, names, files, *own)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // it must repeat
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	result := Result{Seed: *seed, Places: len(all), Survived: []string{}}
	for _, s := range all {
		if *at != "" && s.place() != *at && !strings.HasPrefix(s.place(), *at+":") {
			continue
		}
		if result.Tried == *n && *n > 0 {
			break
		}
		killer, err := who.noticed(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if killer == "" {
			result.Survived = append(result.Survived, s.String())
			killer = "SURVIVED"
		} else {
			result.Killed++
		}
		result.Tried++
		fmt.Printf("%3d %-9s %s\n", result.Tried, killer, s)
	}
	if result.Tried == 0 {
		return errors.New("no place was broken: name packages of core by -packages, and places of them by -at")
	}
	fmt.Printf("%d of %d killed: %.1f %% (%d places)\n", result.Killed, result.Tried, 100*float64(result.Killed)/float64(result.Tried), len(all))
	return write(*out, result)
}

func write(path string, result Result) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // figures are for everybody
}

// witnesses are all suites that may detect a fault, in the order of their runs.
type witnesses []suite

// deciding are the packages whose tests run in addition to a place's own.
var deciding = []string{"operation", "policy", "rollout"}

func notice(core, dir string, names []string, files map[string]woven, own bool) (witnesses, error) {
	over, err := overlay(dir, files)
	if err != nil {
		return nil, err
	}
	var all witnesses
	if own {
		for _, name := range names {
			some, err := suites(name, filepath.Join(core, name), dir, over, "")
			if err != nil {
				return nil, err
			}
			all = append(all, some[0])
		}
		return all, nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(names, deciding)))) {
		some, err := suites(name, filepath.Join(core, name), dir, over, "")
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	some, err := suites("simulator", ".", dir, over, "^(TestSeeds|TestScenarios)$")
	return append(all, some...), err
}

// noticed returns the suite that detects a broken place; empty: none does. A place's own package
// detects most faults.
func (w witnesses) noticed(s site) (string, error) {
	mine := slices.Clone(w)
	slices.SortStableFunc(mine, func(a, b suite) int { return s.far(a) - s.far(b) })
	for _, one := range mine {
		if !one.reached[s.n] {
			continue
		}
		if passed, _, _, err := one.run(s.n, "", one.patience()); err != nil || !passed {
			return one.name, err
		}
	}
	return "", nil
}

// far is the position of a suite in the order.
func (s site) far(one suite) int {
	switch one.name {
	case s.pkg():
		return 0
	case "simulator":
		return 2
	default:
		return 1
	}
}
