package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("prose", flag.ContinueOnError)
	examples := flags.Bool("examples", false, "check the styles against examples.txt")
	counts := flags.Bool("counts", false, "print how often each pattern is used per 1,000 words")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NFlag() > 1 || flags.NFlag() == 1 && flags.NArg() > 0 {
		return errors.New("give paths, or one of -examples and -counts, or nothing")
	}
	switch {
	case *examples:
		return checkExamples(ctx)
	case *counts:
		return printCounts(ctx, out)
	}
	files, err := readable(ctx, flags.Args()...)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no Go or proto file, no page and no help text below %s", strings.Join(flags.Args(), " "))
	}
	alerts, err := lint(ctx, files)
	if err != nil {
		return err
	}
	if printAlerts(out, alerts, flags.NArg() > 0) > 0 {
		return errors.New("name the subject of each sentence, see CONTRIBUTING.md")
	}
	return nil
}

// printAlerts prints a line for each error, and on request for each warning. printAlerts returns the number of errors.
func printAlerts(out io.Writer, alerts map[string][]Alert, warnings bool) (failed int) {
	for _, file := range slices.Sorted(maps.Keys(alerts)) {
		for _, a := range alerts[file] {
			switch {
			case a.fails():
				failed++
				fmt.Fprintf(out, "%s:%d: %s\n", file, a.Line, a.Message)
			case warnings:
				fmt.Fprintf(out, "%s:%d: warning: %s\n", file, a.Line, a.Message)
			}
		}
	}
	return failed
}
