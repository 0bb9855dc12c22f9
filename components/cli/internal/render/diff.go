package render

import (
	"fmt"
	"strings"

	"cadre.dev/cli/internal/diff"
	"cadre.dev/client/format"
)

// Diff shows the changed fields of a spec.
func Diff(s Style, changes []diff.Change) string {
	var b strings.Builder
	for _, c := range changes {
		tone := Warn
		switch c.Kind {
		case diff.Added:
			tone = Good
		case diff.Removed:
			tone = Bad
		case diff.Changed:
		}
		path := c.Path
		if c.Class != "" {
			path += " (" + c.Class + ")"
		}
		switch {
		case len(c.Lines) > 0:
			b.WriteString(s.Paint(fmt.Sprintf("  %s %s:", c.Kind, path), tone) + "\n")
			for _, line := range c.Lines {
				t := Dim
				switch line[0] {
				case '+':
					t = Good
				case '-':
					t = Bad
				}
				b.WriteString(s.Paint("      "+format.OneLine(line), t) + "\n")
			}
		case c.Kind == diff.Changed:
			b.WriteString(s.Paint(fmt.Sprintf("  ~ %s: %s -> %s", path, value(c.Old), value(c.New)), tone) + "\n")
		case c.Kind == diff.Added:
			b.WriteString(s.Paint(fmt.Sprintf("  + %s: %s", path, value(c.New)), tone) + "\n")
		default:
			b.WriteString(s.Paint(fmt.Sprintf("  - %s: %s", path, value(c.Old)), tone) + "\n")
		}
	}
	return b.String()
}

func value(text string) string {
	if strings.Contains(text, "\n") {
		return fmt.Sprintf("(%d lines)", strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1)
	}
	if text == "" {
		return `""`
	}
	return cut(format.OneLine(text), 80)
}
