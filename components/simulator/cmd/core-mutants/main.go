// Command core-mutants breaks the deciding code of core, one place at a time, and counts how often
// a test notices: core's own tests first, then a few seeds and the scenarios of the simulator. The
// code itself stays as it is: a broken copy of one file takes its place for one build.
//
// Usage: core-mutants [-n 30] [-seed 1] [-packages operation,rollout,policy] [-out file], in
// components/simulator.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "core-mutants:", err)
		os.Exit(1)
	}
}

// Result is what came of a run; the report of the simulator reads it.
type Result struct {
	Tried    int      `json:"tried"`
	Killed   int      `json:"killed"`
	Survived []string `json:"survived"`
	Seed     uint64   `json:"seed"`
}

func run() error {
	n := flag.Int("n", 30, "how many mutants to try")
	seed := flag.Uint64("seed", 1, "which ones")
	packages := flag.String("packages", "operation,rollout,policy", "packages of core to break, with commas between")
	out := flag.String("out", "", "where to write the result as JSON; empty: nowhere")
	flag.Parse()
	core, err := filepath.Abs("../core")
	if err != nil {
		return err
	}
	all, err := sites(core, strings.Split(*packages, ","))
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // it must repeat
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	dir, err := os.MkdirTemp("", "core-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	result := Result{Seed: *seed, Survived: []string{}}
	for _, s := range all {
		if result.Tried == *n {
			break
		}
		killer, err := try(core, dir, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		switch killer {
		case notBuilt:
			continue
		case nobody:
			result.Survived = append(result.Survived, s.String())
		default:
			result.Killed++
		}
		result.Tried++
		fmt.Printf("%3d %-9s %s\n", result.Tried, killer, s)
	}
	if result.Tried == 0 {
		return errors.New("no mutant was built: name packages of core by -packages")
	}
	fmt.Printf("%d of %d killed: %.0f %%\n", result.Killed, result.Tried, 100*float64(result.Killed)/float64(result.Tried))
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

// killer says which tests noticed a mutant.
type killer string

const (
	nobody    killer = "SURVIVED"
	notBuilt  killer = "not built"
	ownTests  killer = "core"
	simulator killer = "simulator"
)

// try builds a mutant and has the tests look for it.
func try(core, dir string, s site) (killer, error) {
	text, err := s.mutated()
	if err != nil {
		return nobody, err
	}
	broken, overlay := filepath.Join(dir, filepath.Base(s.file)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(broken, text, 0o600); err != nil {
		return nobody, err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {s.file: broken}})
	if err != nil {
		return nobody, err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return nobody, err
	}
	if !passes(core, "build", "-overlay", overlay, "./...") {
		return notBuilt, nil
	}
	// Most are noticed where they are, and the other packages take far longer.
	for _, packages := range [][]string{{"./" + filepath.Base(filepath.Dir(s.file)) + "/..."}, {"./operation/...", "./rollout/...", "./policy/..."}} {
		if !passes(core, append([]string{"test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout", "3m"}, packages...)...) {
			return ownTests, nil
		}
	}
	if !passes(".", "test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout", "5m", "-run", "TestSeeds|TestScenarios", ".") {
		return simulator, nil
	}
	return nobody, nil
}

// passes runs go with these arguments in a folder; what takes too long does not pass.
func passes(folder string, args ...string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	return cmd.Run() == nil
}
