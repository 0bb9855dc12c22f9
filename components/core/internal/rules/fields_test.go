package rules

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"cadre.dev/core/group"
)

const (
	groupFile = "../../../../docs/reference/group-file.md"
	// `go test ./internal/rules -update` writes the text between these two lines.
	fieldsBegin = "<!-- fields: written by `go test ./internal/rules -update` in components/core -->\n"
	fieldsEnd   = "<!-- end of fields -->\n"
)

// fieldReference is the table of all fields, and that of the settings of each driver.
func fieldReference() string {
	var b strings.Builder
	b.WriteString("\n| field | type | default | range | class | |\n|---|---|---|---|---|---|\n")
	for _, f := range group.Fields() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Path, f.Type, f.Default, f.Range, f.Class, f.Line)
	}
	b.WriteString("\n### Settings of a workload\n\nEach is a text. An empty one counts as absent.\n\n| workload | setting | default | range | |\n|---|---|---|---|---|\n")
	for _, kind := range group.WorkloadKinds() {
		for _, s := range group.SettingsOf(kind) {
			value, line := s.Default, s.Line
			if value != "" {
				value = "`" + value + "`"
			}
			if len(s.With) > 0 {
				line += " Only with `" + strings.Join(s.With, "` and `") + "`."
			}
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", kind, s.Name, value, s.Range(), line)
		}
	}
	return b.String() + "\n"
}

func TestTheFieldReferenceIsWhatTheCodeSays(t *testing.T) {
	text := page(t, groupFile)
	before, rest, begins := strings.Cut(text, fieldsBegin)
	told, after, ends := strings.Cut(rest, fieldsEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks the lines between which the fields stand", groupFile)
	}
	want := fieldReference()
	if *update && told != want {
		told = want
		if err := os.WriteFile(groupFile, []byte(before+fieldsBegin+want+fieldsEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if told != want {
		t.Error("the fields differ from the code: run `go test ./internal/rules -update` in components/core")
	}
}
