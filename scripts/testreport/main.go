package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	log := flag.String("log", "", "file to keep all output of all tests in")
	flag.Parse()
	ok, err := report(*log, flag.Args())
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
