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

// fieldReference has a table of the fields outside of blocks, a table for each block, and the settings
// of each driver.
func fieldReference() string {
	var top strings.Builder
	top.WriteString("\n| field | range; default | class | meaning |\n|---|---|---|---|\n")
	var blocks []string
	parts := map[string][]group.Field{}
	about := map[string]group.Field{}
	for _, f := range group.Fields() {
		block, name, part := strings.Cut(f.Path, ".")
		switch {
		case part:
			f.Path = name
			parts[block] = append(parts[block], f)
		case f.Class == "":
			blocks, about[f.Path] = append(blocks, f.Path), f
		default:
			fmt.Fprintf(&top, "| `%s` | %s | %s | %s |\n", f.Path, rangeAndDefault(f), f.Class, f.Line)
		}
	}
	for _, name := range blocks {
		top.WriteString(blockReference(about[name], parts[name]))
	}
	return top.String() + settingReference() + "\n"
}

func blockReference(block group.Field, parts []group.Field) string {
	classes := map[group.UpdateAction]bool{}
	for _, f := range parts {
		if f.Class != "" {
			classes[f.Class] = true
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n### `%s` (%s)\n\n%s", block.Path, block.Type, block.Line)
	head, rule := " class |", "---|"
	if len(classes) == 1 {
		for class := range classes {
			fmt.Fprintf(&b, " Class: %s.", class)
		}
		head, rule = "", ""
	}
	fmt.Fprintf(&b, "\n\n| field | range; default |%s meaning |\n|---|---|%s---|\n", head, rule)
	for _, f := range parts {
		class := ""
		if len(classes) > 1 {
			class = " " + string(f.Class) + " |"
		}
		line := f.Line
		if f.Path == "settings" {
			line = "[Settings of the driver](#settings-of-a-workload), as texts."
		}
		fmt.Fprintf(&b, "| `%s` | %s |%s %s |\n", f.Path, rangeAndDefault(f), class, line)
	}
	return b.String()
}

func settingReference() string {
	var b strings.Builder
	b.WriteString("\n## Settings of a workload\n\nEach setting is a text; the text of a `_file` is an absolute path. An empty setting counts as absent.\n")
	for _, kind := range group.WorkloadKinds() {
		if len(group.SettingsOf(kind)) > 0 {
			fmt.Fprintf(&b, "\n| `%s` | default, range | meaning |\n|---|---|---|\n", kind)
		}
		for _, s := range group.SettingsOf(kind) {
			var value []string
			if s.Default != "" {
				value = append(value, "`"+s.Default+"`")
			}
			if s.Kind != group.SettingFile && s.Range() != "" {
				value = append(value, s.Range())
			}
			line := s.Line
			if len(s.With) > 0 {
				line += " Only with `" + strings.Join(s.With, "` and `") + "`."
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, strings.Join(value, ", "), line)
		}
	}
	return b.String()
}

// rangeAndDefault leaves out the type where a range makes it plain, that of a string, and the default
// of a bool.
func rangeAndDefault(f group.Field) string {
	text := f.Range
	if f.Type != "string" && (text == "" || f.Type == "map of strings") {
		text = strings.TrimSuffix(f.Type+", "+text, ", ")
	}
	if f.Default == "" || f.Type == "bool" && f.Default == "`false`" {
		return text
	}
	return strings.TrimPrefix(text+"; "+f.Default, "; ")
}

func TestTheFieldReferenceMatchesTheCode(t *testing.T) {
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
