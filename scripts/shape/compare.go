package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

const howToRecord = "go run ./scripts/shape -record"

// figure is one row of a package's table. A lower value is better.
type figure struct {
	name, of string
	value    float64
}

func (f Figures) rows() []figure {
	rows := []figure{
		{"lines", "", float64(f.Lines)},
		{"arrows between files", "", float64(f.Arrows)},
		{"upward arrows", "", float64(f.Upward)},
		{"&& and || per 100 lines", "", decimal(f.Logic)},
		{"fields of the largest struct", f.Largest, float64(f.LargestFields)},
		{"methods of one type", f.Busiest, float64(f.Methods)},
		{"constants of time", "", float64(f.Times)},
		{"constants of time without a comment", "", float64(f.BareTimes)},
	}
	if f.Type != "" {
		rows = append(rows,
			figure{"fields of the named type", f.Type, float64(f.TypeFields)},
			figure{"bool fields of the named type", f.Type, float64(f.TypeBools)})
	}
	return rows
}

// table writes the table for people.
func table(out io.Writer, before, now []Figures) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range now {
		was := before[i].rows()
		_, _ = fmt.Fprintf(w, "%s\tnow\trecorded\t\n", now[i].Package)
		for j, is := range now[i].rows() {
			_, _ = fmt.Fprintf(w, "  %s\t%g\t%g\t%s\n", is.name, is.value, was[j].value, is.of)
		}
	}
	return w.Flush()
}

// compare writes each difference, and returns an error where a figure is worse. With exact it
// returns one where a better figure is not recorded, too.
func compare(out io.Writer, before, now []Figures, exact bool) error {
	var worse, better bool
	for i := range now {
		was := before[i].rows()
		for j, is := range now[i].rows() {
			word := ""
			switch {
			case is.value > was[j].value:
				word, worse = "worse", true
			case is.value < was[j].value:
				word, better = "better", true
			default:
				continue
			}
			of := is.of
			if of != "" {
				of = " (" + of + ")"
			}
			_, _ = fmt.Fprintf(out, "%s: %s%s: recorded %g, now %g: %s\n", now[i].Package, is.name, of, was[j].value, is.value, word)
		}
	}
	switch {
	case worse:
		return errors.New("a figure is worse than recorded: make it better, or run `" + howToRecord + "` and give the reason in the commit")
	case better && exact:
		return errors.New("a figure is better than recorded: keep it so with `" + howToRecord + "`, in the same commit")
	case exact && !slices.Equal(before, now):
		return errors.New("the record names another type: correct it with `" + howToRecord + "`")
	case better:
		_, err := fmt.Fprintf(out, "a figure is better than recorded: keep it so with `%s`\n", howToRecord)
		return err
	}
	return nil
}
