package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// comparison is relative to this folder, its links to the page's own.
const comparison = "../../../../docs/evidence/comparison.md"

// comparedRows are the features that the page has to answer for.
const comparedRows = 107

var (
	// A row is: id, feature, six others, Cadre's answer, the evidence or the gap.
	comparedRow = regexp.MustCompile(`^\| ([A-J]\d+) \| [^|]+ (?:\| [YPN–] ){6}\| (yes|partly|planned|no) \| ([^|]+) \|$`)
	// A row that the expression above does not match would not be checked.
	likeARow = regexp.MustCompile(`(?m)^\| *[A-J]\d.*$`)
	shownBy  = regexp.MustCompile(`\[(Test\w+)(?:/(\w+))?\]\(([^)]+)\)`)
	// Text of a row other than its words and links.
	beside    = regexp.MustCompile(`<br>|<!--[^>]*-->|\s`)
	countLine = regexp.MustCompile(`\*\*yes (\d+), partly (\d+), planned (\d+), no (\d+), of (\d+)\.\*\* The aim is at least 100 yes; (\d+) are reached`)
)

// compared is one row of the page.
type compared struct{ id, answer, words string }

func readComparison(t *testing.T) (text string, rows []compared) {
	t.Helper()
	text = page(t, comparison)
	for _, line := range likeARow.FindAllString(text, -1) {
		m := comparedRow.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a row as the others: %s", line)
			continue
		}
		rows = append(rows, compared{id: m[1], answer: m[2], words: m[3]})
	}
	return text, rows
}

// shows reports the problem of a link to a test, or to a story that TestStories plays.
func shows(test, story, target string) error {
	file := filepath.Join(filepath.Dir(comparison), target)
	if story != "" {
		if filepath.Base(file) != story+".txt" {
			return fmt.Errorf("%s is not the story %s", target, story)
		}
		if _, err := os.Stat(file); err != nil {
			return err
		}
		file = filepath.Join(filepath.Dir(file), "..", "story_test.go")
	}
	text, err := os.ReadFile(file)
	if err == nil && !strings.Contains(string(text), "\nfunc "+test+"(") {
		err = fmt.Errorf("%s has no %s", file, test)
	}
	return err
}

func TestTheComparisonLinksTestsThatExist(t *testing.T) {
	text, rows := readComparison(t)
	for _, m := range shownBy.FindAllStringSubmatch(text, -1) {
		if err := shows(m[1], m[2], m[3]); err != nil {
			t.Error(err)
		}
	}
	for _, r := range rows {
		if claims := r.answer == "yes" || r.answer == "partly"; claims && !shownBy.MatchString(r.words) {
			t.Errorf("%s says %s, and no test shows it", r.id, r.answer)
		}
		if said := beside.ReplaceAllString(shownBy.ReplaceAllString(r.words, ""), ""); said == "" && r.answer != "yes" {
			t.Errorf("%s says %s, and not what is missing", r.id, r.answer)
		}
	}
}

func TestTheComparisonCountsRight(t *testing.T) {
	text, rows := readComparison(t)
	var ids []string
	n := map[string]int{}
	for _, r := range rows {
		ids = append(ids, r.id)
		n[r.answer]++
	}
	slices.Sort(ids)
	if different := len(slices.Compact(ids)); len(rows) != comparedRows || different != comparedRows {
		t.Errorf("%d rows, %d ids, want %d of each", len(rows), different, comparedRows)
	}
	want := []int{n["yes"], n["partly"], n["planned"], n["no"], len(rows), n["yes"]}
	var got []int
	if m := countLine.FindStringSubmatch(text); m != nil {
		for _, text := range m[1:] {
			count, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, count)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page counts %v, its rows are %v", got, want)
	}
}
