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

const unfinished = "scripts/prose/unfinished.txt"

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("prose", flag.ContinueOnError)
	record := flags.Bool("record", false, "write today's counts to "+unfinished)
	examples := flags.Bool("examples", false, "check the styles against examples.txt")
	counts := flags.Bool("counts", false, "print how often each pattern is used per 1,000 words")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NFlag() > 1 || flags.NFlag() == 1 && flags.NArg() > 0 {
		return errors.New("give paths, or one of -record, -examples and -counts, or nothing")
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
	now := count(alerts)
	switch {
	case *record:
		return os.WriteFile(unfinished, []byte(encode(now)), 0o644) //nolint:gosec // a file of the repository
	case flags.NArg() > 0:
		if printErrors(out, alerts, nil); len(now) > 0 {
			return errors.New("see above")
		}
		return nil
	}
	text, err := os.ReadFile(unfinished)
	if err != nil {
		return err
	}
	recorded, err := decode(string(text))
	if err != nil {
		return err
	}
	worse, better := compare(recorded, now)
	if len(worse) > 0 {
		printErrors(out, alerts, worse)
		return fmt.Errorf("more errors than %s records in %s: name the subject of each sentence, see CONTRIBUTING.md", unfinished, strings.Join(worse, ", "))
	}
	if len(better) > 0 {
		return fmt.Errorf("fewer errors than recorded, run `go run ./scripts/prose -record`:\n%s", strings.Join(better, "\n"))
	}
	return nil
}

// printErrors prints a line for each error of some places; nil: of all files, and each warning too.
func printErrors(out io.Writer, alerts map[string][]Alert, places []string) {
	for _, file := range slices.Sorted(maps.Keys(alerts)) {
		if places != nil && !slices.Contains(places, place(file)) {
			continue
		}
		for _, a := range alerts[file] {
			switch {
			case a.Severity == "error":
				fmt.Fprintf(out, "%s:%d: %s\n", file, a.Line, a.Message)
			case places == nil:
				fmt.Fprintf(out, "%s:%d: warning: %s\n", file, a.Line, a.Message)
			}
		}
	}
}
