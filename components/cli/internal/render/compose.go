package render

import (
	"fmt"
	"strings"

	"cadre.dev/client/format"
	"cadre.dev/compose/lint"
)

// Findings prints lint's findings, each in two lines, and a sum.
func Findings(s Style, findings []lint.Finding, files int) string {
	var b strings.Builder
	errs := 0
	for _, f := range findings {
		tone := Warn
		if f.Severity == lint.Error {
			tone = Bad
			errs++
		}
		b.WriteString(format.OneLine(f.Place()) + s.Paint(string(f.Severity), tone) + ": " + format.OneLine(f.Subject()) + " " + s.Paint("["+string(f.Rule)+"]", Dim) + "\n")
		if f.Fix != "" {
			b.WriteString("    " + format.OneLine(f.Fix) + "\n")
		}
	}
	switch {
	case len(findings) == 0:
		fmt.Fprintf(&b, "%s: nothing to say\n", count(files, "file"))
	default:
		fmt.Fprintf(&b, "%s, %s\n", count(errs, "error"), count(len(findings)-errs, "warning"))
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Pinned is one image of a compose file before and after pinning.
type Pinned struct {
	Service string `json:"service"`
	Line    int    `json:"line"`
	Old     string `json:"old"`
	New     string `json:"new"`
}

// Pins shows the images that change.
func Pins(s Style, file string, pins []Pinned, lines []string) string {
	var b strings.Builder
	changed := 0
	for _, p := range pins {
		if p.Old != p.New {
			changed++
		}
	}
	if changed == 0 {
		return fmt.Sprintf("%s: %s pinned already\n", file, count(len(pins), "image"))
	}
	rows := [][]Cell{}
	for _, p := range pins {
		if p.Old != p.New {
			rows = append(rows, []Cell{C(p.Service), C(fmt.Sprint(p.Line)), C(p.Old), T(p.New, Good)})
		}
	}
	b.WriteString(s.Table([]string{"SERVICE", "LINE", "OLD", "NEW"}, rows))
	for _, line := range lines {
		tone := Dim
		switch line[0] {
		case '+':
			tone = Good
		case '-':
			tone = Bad
		}
		b.WriteString(s.Paint(format.OneLine(line), tone) + "\n")
	}
	return b.String()
}
