// Command threattests fills the last column of docs/threat-model.md: the tests
// of each row. A test belongs to the rows that its name has, as in
// TestATT01_ForgedQuotesAreRefused. It fails when a test names a row that the
// page does not have, when the page names a test that does not exist, and when a
// row of priority P0 has neither a test nor a word on what is open. The rows that
// are built first must be there.
package main

//go:generate go run .

import (
	"bytes"
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
	page := flag.String("page", "../../../../docs/threat-model.md", "the page to fill")
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
	for _, id := range first {
		if !strings.Contains(string(text), "\n| "+id+" | P0 | ") {
			return fmt.Errorf("row %s, of priority P0, is not on the page", id)
		}
	}
	filled, err := fill(string(text), tests)
	if err != nil {
		return err
	}
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
	// first are the rows that carry most of the risk. The page has all of them.
	first = strings.Fields(`ATT-01 ATT-02 ATT-04 ATT-07 ATT-09 ATT-10 ATT-12 ATT-15 ATT-16 ATT-17 ATT-18 ATT-19 ATT-20
		ATT-21 ATT-23 ATT-24 ATT-25 ATT-31 IDN-01 IDN-03 IDN-04 IDN-05 IDN-08 OVL-01 OVL-05 OVL-06 OVL-07 OVL-15
		TOK-01 TOK-02 TOK-04 TOK-05 TOK-07 TOK-08 TOK-10 CTL-01 CTL-02 CTL-03 CTL-06 CTL-08 CTL-16 HK-01 HK-03
		INP-01 INP-04 INP-06 PLT-02 PLT-03 PLT-06 OPS-01 OPS-03`)
	// A row is: id, priority, promise, defence or what is open, tests.
	row       = regexp.MustCompile(`^\| ([A-Z]{2,3}-\d\d) \| (P\d) \| (.*) \| (.*) \| (.*) \|$`)
	inName    = regexp.MustCompile(`(ATT|IDN|OVL|TOK|CTL|HK|INP|PLT|OPS|GEN|SUP)(\d\d)`)
	quoted    = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	openWords = regexp.MustCompile(`(?i)\bopen:`)
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
	seen := map[string]bool{}
	for i, line := range lines {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id, priority, promise, defence := m[1], m[2], m[3], m[4]
		if seen[id] {
			errs = append(errs, fmt.Errorf("row %s is there twice", id))
		}
		seen[id] = true
		named := quoted.FindAllStringSubmatch(defence, -1)
		for _, n := range named {
			if !slices.Contains(tests, n[1]) {
				errs = append(errs, fmt.Errorf("row %s names the test %s, which does not exist", id, n[1]))
			}
		}
		column := make([]string, 0, len(byRow[id]))
		for _, test := range byRow[id] {
			column = append(column, "`"+test+"`")
		}
		if len(column)+len(named) == 0 && priority == "P0" && !openWords.MatchString(defence) {
			errs = append(errs, fmt.Errorf("row %s has no test; write one, or say \"Open:\" and what is", id))
		}
		lines[i] = fmt.Sprintf("| %s | %s | %s | %s | %s |", id, priority, promise, defence, strings.Join(column, "<br>"))
	}
	for _, id := range slices.Sorted(maps.Keys(byRow)) {
		if !seen[id] {
			errs = append(errs, fmt.Errorf("%s tests row %s, which the page does not have", byRow[id][0], id))
		}
	}
	return strings.Join(lines, "\n"), errors.Join(errs...)
}
