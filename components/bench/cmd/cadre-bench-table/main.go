// Command cadre-bench-table writes the last results of the benchmarks into docs/evidence/performance.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"cadre.dev/bench/internal/table"
)

func main() {
	if err := write(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cadre-bench-table:", err)
		os.Exit(1)
	}
}

func write(args []string) error {
	flags := flag.NewFlagSet("cadre-bench-table", flag.ContinueOnError)
	from := flags.String("from", ".out", "folder with the benchmarks' bench-*.json")
	to := flags.String("to", "docs/evidence/performance.md", "the document")
	if err := flags.Parse(args); err != nil {
		return err
	}
	results, err := table.Load(*from)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(*to)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(*to, []byte(table.Document(string(page), results, time.Now())), 0o644) //nolint:gosec // a document is for everybody
}
