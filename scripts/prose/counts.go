package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
)

// pattern has a count per 1,000 words in docs/contributing/testing.md.
type pattern struct {
	name     string
	finds    *regexp.Regexp
	markdown bool // counted in Markdown only
}

var patterns = []pattern{
	{"free relative clauses", regexp.MustCompile(`(?i)(?:^|[.;:,(] |\b(?:of|for|by|to|from|with|and|or|but|than|is|says|knows|at|on|in) )(?:who|what|whatever)\b`), false},
	{"one that, those that, whoever", regexp.MustCompile(`(?i)\b(?:ones? that|those that|those who|whoever)\b`), false},
	{"nobody, somebody", regexp.MustCompile(`(?i)\b(?:nobody|somebody)\b`), false},
	{"tell, told", regexp.MustCompile(`(?i)\b(?:tell|tells|told|telling)\b`), false},
	{"anew, beside, but for, by itself, for ever", regexp.MustCompile(`(?i)\b(?:anew|beside|but for|by itself|for ever)\b`), false},
	{"pronouns", regexp.MustCompile(`(?i)\b(?:it|they|one|those|them)\b`), true},
	{"negations", regexp.MustCompile(`(?i)\b(?:not|no|never|nothing|none|nobody|without|cannot|neither|nor)\b|n't\b`), true},
}

var fences = regexp.MustCompile("(?s)```.*?```|`[^`]*`")

// printCounts reads all files once.
func printCounts(ctx context.Context, out io.Writer) error {
	files, err := readable(ctx)
	if err != nil {
		return err
	}
	var words [2]int
	found := make([][2]int, len(patterns))
	for _, file := range files {
		if path.Ext(file) != ".go" && path.Ext(file) != ".md" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		of, prose := 0, ""
		if strings.HasSuffix(file, ".go") {
			if prose, err = comments(file, text); err != nil {
				return err
			}
		} else {
			of, prose = 1, fences.ReplaceAllString(string(text), "x")
		}
		words[of] += len(strings.Fields(prose))
		for i, p := range patterns {
			found[i][of] += len(p.finds.FindAllString(prose, -1))
		}
	}
	fmt.Fprintf(out, "per 1,000 words                             Go comments  Markdown\nwords                                       %11d  %8d\n", words[0], words[1])
	for i, p := range patterns {
		in := ""
		if !p.markdown {
			in = fmt.Sprintf("%.2f", 1000*float64(found[i][0])/float64(max(words[0], 1)))
		}
		fmt.Fprintf(out, "%-43s %11s  %8.2f\n", p.name, in, 1000*float64(found[i][1])/float64(max(words[1], 1)))
	}
	return nil
}

// comments is the text of all comments of a Go file.
func comments(file string, text []byte) (string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, group := range parsed.Comments {
		b.WriteString(group.Text())
		b.WriteByte('\n')
	}
	return b.String(), nil
}
