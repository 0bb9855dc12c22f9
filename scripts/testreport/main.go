package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	log := flag.String("log", "", "file to keep all output of all tests in")
	took := flag.Duration("took", 0, "how long the run took")
	budget := flag.Duration("budget", 0, "how long the run may take; 0: as long as it wants")
	flag.Parse()
	ok, err := report(*log, flag.Args())
	err = errors.Join(err, within(*took, *budget))
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// report reads the files of events, writes log where it has a name, and prints.
func report(log string, paths []string) (ok bool, err error) {
	var r run
	for _, path := range paths {
		if err := readFile(&r, path); err != nil {
			return false, err
		}
	}
	if log != "" {
		f, err := os.Create(log)
		if err != nil {
			return false, fmt.Errorf("make the log: %w", err)
		}
		r.writeLog(f)
		if err := f.Close(); err != nil {
			return false, fmt.Errorf("write the log: %w", err)
		}
	}
	v := r.judge()
	v.print(os.Stdout)
	return v.ok(), nil
}

// within reports a run that took longer than its budget. A budget of 0 is none.
func within(took, budget time.Duration) error {
	if budget == 0 || took <= budget {
		return nil
	}
	return fmt.Errorf("the tests took %v, and CADRE_TEST_BUDGET gives them %v: the slowest are listed above, and docs/contributing/testing.md has the figures that were reached; "+
		"run the tests again on an idle machine, then make the new ones faster or raise the budget in .ci/run", took, budget)
}

func readFile(r *run, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the events: %w", err)
	}
	defer f.Close()
	// scripts/test.sh names the files of its lanes so.
	lane := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "test-"), ".json")
	if err := r.read(lane, f); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
