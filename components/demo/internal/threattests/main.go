// Command threattests fills the last column of docs/evidence/threat-model.md: the tests of each
// row, and the line that names the rows of priority P0 that no test shows. A test belongs
// to the rows that its name has, as in TestATT01_ForgedQuotesAreRefused.
//
// It fails when the page lacks a row that it must have or gives it another priority, when
// a row has neither a test nor says "Open:" and why, when a test names a row that the page
// does not have, and when the page names a test that does not exist.
package main

//go:generate go run .

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", "../../../..", "the repository")
	page := flag.String("page", "../../../../docs/evidence/threat-model.md", "the page to fill")
	flag.Parse()
	if err := run(*root, *page); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root, page string) error {
	tests, err := find(filepath.Join(root, "components"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), tests)
	if err != nil {
		return err
	}
	fmt.Println(untested.FindString(filled))
	if bytes.Equal(text, []byte(filled)) {
		return nil
	}
	return os.WriteFile(page, []byte(filled), 0o644) //nolint:gosec // a page of the docs
}

var declaration = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// find lists the names of all tests below root.
func find(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

var (
	// A row is: id, priority, promise, defence or open point, tests.
	row    = regexp.MustCompile(`^\| ([A-Z]{2,3}-\d\d) \| (P\d) \| (.*) \| (.*) \| (.*) \|$`)
	inName = regexp.MustCompile(`(ATT|IDN|OVL|TOK|DOR|CTL|HK|INP|PLT|OPS|GEN|SUP)(\d\d)`)
	quoted = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	// open is the word and at least four more that say why.
	open = regexp.MustCompile(`\bOpen:(\s+\S+){4}`)
	// untested is the line that names the rows of P0 without a test.
	untested = regexp.MustCompile(`(?m)^P0 rows that no test shows: .*$`)
)

// rowsOf are the rows that a test's name has.
func rowsOf(test string) []string {
	var ids []string
	for _, m := range inName.FindAllStringSubmatch(test, -1) {
		ids = append(ids, m[1]+"-"+m[2])
	}
	return ids
}

func fill(page string, tests []string) (string, error) {
	byRow := map[string][]string{}
	for _, test := range tests {
		for _, id := range rowsOf(test) {
			byRow[id] = append(byRow[id], test)
		}
	}
	var errs []error
	lines := strings.Split(page, "\n")
	seen := map[string]string{}
	bare := []string{}
	for i, line := range lines {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id, priority, promise, defence := m[1], m[2], m[3], m[4]
		if seen[id] != "" {
			errs = append(errs, fmt.Errorf("row %s is there twice", id))
		}
		seen[id] = priority
		for _, n := range quoted.FindAllStringSubmatch(defence, -1) {
			if !slices.Contains(tests, n[1]) {
				errs = append(errs, fmt.Errorf("row %s names the test %s, which does not exist", id, n[1]))
			}
		}
		column := make([]string, 0, len(byRow[id]))
		for _, test := range byRow[id] {
			column = append(column, "`"+test+"`")
		}
		if len(column) == 0 && !open.MatchString(defence) {
			errs = append(errs, fmt.Errorf("row %s has no test that carries its id; write one, or say \"Open:\" and why", id))
		}
		if len(column) == 0 && priority == "P0" {
			bare = append(bare, id)
		}
		lines[i] = fmt.Sprintf("| %s | %s | %s | %s | %s |", id, priority, promise, defence, strings.Join(column, "<br>"))
	}
	for _, id := range slices.Sorted(maps.Keys(byRow)) {
		if seen[id] == "" {
			errs = append(errs, fmt.Errorf("%s tests row %s, which the page does not have", byRow[id][0], id))
		}
	}
	errs = append(errs, missing(seen)...)
	filled := strings.Join(lines, "\n")
	if !untested.MatchString(filled) {
		errs = append(errs, errors.New("the page has no line \"P0 rows that no test shows: ...\""))
	}
	slices.Sort(bare)
	return untested.ReplaceAllString(filled, "P0 rows that no test shows: "+cmp.Or(strings.Join(bare, ", "), "none")+"."), errors.Join(errs...)
}
