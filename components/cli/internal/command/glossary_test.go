package command

import (
	"os"
	"strings"
	"testing"
)

// TestTheGlossaryHasEveryNounOfTheCommands: help, completion and version are words of every tool.
func TestTheGlossaryHasEveryNounOfTheCommands(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := new(App).root().Commands()
	if len(commands) < 10 {
		t.Fatalf("cadre has %d commands", len(commands))
	}
	for _, c := range commands {
		name, _ := strings.CutPrefix(c.Name(), "un")
		if name != "status" {
			name = strings.TrimSuffix(name, "s")
		}
		switch name {
		case "help", "completion", "version":
			continue
		}
		if !strings.Contains(string(page), "\n| **"+name+"**") {
			t.Errorf("docs/glossary.md has no entry for `cadre %s`", c.Name())
		}
	}
}
