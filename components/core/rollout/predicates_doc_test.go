package rollout

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/operation"
)

// rulesPage lists the holds of an Action with their remedies.
const rulesPage = "../../../docs/evidence/rollout-rules.md"

var predicateRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|$")

// aboutOf names the Actions that a predicate holds. againOf says whether the predicate is checked before the call.
// Both use the words of the page.
func aboutOf(p predicate) string {
	kinds := map[operation.Kind]string{
		operation.Create: "creations", operation.Update: "updates", operation.Restart: "restarts",
		operation.Delete: "removals", operation.Replace: "replacements", operation.Drain: "drains", operation.Stop: "stops",
	}
	var about []string
	all := []operation.Kind{operation.Create, operation.Update, operation.Restart, operation.Delete, operation.Replace, operation.Drain, operation.Stop}
	for _, k := range all {
		if harmOf(k) >= p.from && (p.only == nil || slices.Contains(p.only, k)) {
			about = append(about, kinds[k])
		}
	}
	text := strings.Join(about, ", ")
	switch {
	case len(about) == len(all):
		text = "everything"
	case len(about) == len(all)-2 && !slices.Contains(about, kinds[operation.Create]) && !slices.Contains(about, kinds[operation.Stop]):
		text = "all except creations"
	}
	if p.voluntary {
		text += "; unless it is down"
	}
	if p.actor != "" {
		text += "; only by " + string(p.actor)
	}
	return text
}

func againOf(p predicate) string {
	if p.once == "" {
		return "yes"
	}
	return "once: " + p.once
}

// TestR140_ThePageListsTheHoldsOfAnAction: the page lists every name of the table in order, with the table's content
// and a remedy for each.
func TestR140_ThePageListsTheHoldsOfAnAction(t *testing.T) {
	text, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, p := range predicates {
		for _, name := range p.names {
			want = append(want, fmt.Sprintf("| `%s` | %s | %s |", name, aboutOf(p), againOf(p)))
		}
	}
	for _, m := range predicateRow.FindAllStringSubmatch(string(text), -1) {
		got = append(got, fmt.Sprintf("| `%s` | %s | %s |", m[1], m[2], m[3]))
		if strings.TrimSpace(m[4]) == "" || strings.TrimSpace(m[5]) == "" {
			t.Errorf("%s: the page does not say what it means, or what to do", m[1])
		}
	}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Errorf("the page misses %s", want[i])
		case i >= len(want):
			t.Errorf("the page has %s, and the table has no such name", got[i])
		case want[i] != got[i]:
			t.Errorf("row %d of the page reads\n%s\nand the table says\n%s", i+1, got[i], want[i])
		}
	}
}

// TestR140_EveryNameIsCarriedByOnePredicate: a hold name without a predicate would be missing in the list.
func TestR140_EveryNameIsCarriedByOnePredicate(t *testing.T) {
	source, err := os.ReadFile("holdnames.go")
	if err != nil {
		t.Fatal(err)
	}
	carried := map[string]int{}
	for _, p := range predicates {
		if p.check == nil {
			t.Errorf("%v: nothing is asked", p.names)
		}
		for _, name := range p.names {
			carried[name]++
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\tHold\w+ += "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		if carried[m[1]] != 1 {
			t.Errorf("%s is carried by %d predicates, want 1", m[1], carried[m[1]])
		}
	}
}
