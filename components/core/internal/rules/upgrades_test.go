package rules

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"cadre.dev/core/upgrade"
)

const (
	workloadsPage = "../../../../docs/guides/workloads.md"
	// `go test ./internal/rules -update` writes the text between these two lines.
	upgradesBegin = "<!-- upgrades: written by `go test ./internal/rules -update` in components/core -->\n"
	upgradesEnd   = "<!-- end of upgrades -->\n"
)

// upgradeReference is a table of every rule.
func upgradeReference() string {
	var b strings.Builder
	b.WriteString("| software, step | rule | the way back | source |\n|---|---|---|---|\n")
	for _, r := range upgrade.All() {
		verdict := "a warning"
		if r.Jump.Certain {
			verdict = "refused"
		}
		far := fmt.Sprintf("%d or more release lines at once", r.Jump.Most+1)
		if r.Jump.Most == 0 {
			far = "another release line"
		}
		if r.Jump.Most < len(r.Lines)-1 {
			fmt.Fprintf(&b, "| %s %s to %s, %s | %s: %s | | %s |\n", r.Software, r.Lines[0], r.Lines[len(r.Lines)-1], far, verdict, r.Jump.Why, r.Jump.Source)
		}
		for _, s := range r.Steps {
			step, rule := "any", []string{}
			if s.From != "" {
				step = s.From + " to " + s.To
			}
			if s.First != "" {
				rule = append(rule, fmt.Sprintf("%s or newer first: %s", s.First, s.FirstWhy))
			}
			switch s.NoReturn {
			case upgrade.LastMember:
				rule = append(rule, "the last member waits: "+s.Lost)
			case upgrade.Operator:
				rule = append(rule, s.Lost)
			}
			if s.Note != "" {
				rule = append(rule, s.Note)
			}
			back := s.Back
			if s.BackCertain {
				back += "; refused before"
			}
			fmt.Fprintf(&b, "| %s %s | %s | %s | %s |\n", r.Software, step, cmp.Or(strings.Join(rule, "; "), "allowed"), back, s.Source)
		}
	}
	return b.String()
}

func TestTheTableOfUpgradesMatchesTheRules(t *testing.T) {
	text := page(t, workloadsPage)
	before, rest, begins := strings.Cut(text, upgradesBegin)
	told, after, ends := strings.Cut(rest, upgradesEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks the lines between which the rules stand", workloadsPage)
	}
	want := upgradeReference()
	if *update && told != want {
		told = want
		if err := os.WriteFile(workloadsPage, []byte(before+upgradesBegin+want+upgradesEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if told != want {
		t.Error("the table differs from the rules: run `go test ./internal/rules -update` in components/core")
	}
}
