// Command gendocs writes docs/reference/kv.md from the table of records.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	output := flag.String("o", "", "file to write; empty: standard output")
	flag.Parse()
	if err := run(*output); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func run(output string) error {
	if output == "" {
		_, err := os.Stdout.Write(render())
		return err
	}
	return os.WriteFile(output, render(), 0o644) //nolint:gosec // documentation, for everybody to read
}
