package render

import (
	"strings"
	"unicode/utf8"

	"cadre.dev/client/format"
)

// Tone is the colour of a piece of text, by meaning.
type Tone string

const (
	// Plain has no colour.
	Plain Tone = ""
	// Good is green.
	Good Tone = "32"
	// Warn is yellow.
	Warn Tone = "33"
	// Bad is red.
	Bad Tone = "31"
	// Dim is for rarely needed text.
	Dim Tone = "2"
	// Bold is for the most important text.
	Bold Tone = "1"
)

// Cell is one field of a table.
type Cell struct {
	Text string
	Tone Tone
}

// C makes a plain cell, with "-" for nothing.
func C(text string) Cell { return T(text, Plain) }

// T makes a cell with a tone.
func T(text string, tone Tone) Cell {
	if text == "" {
		return Cell{"-", Dim}
	}
	return Cell{text, tone}
}

// Style says how to print.
type Style struct {
	// Color allows ANSI colours.
	Color bool
	// Width cuts lines at so many columns; 0 never cuts.
	Width int
}

// Paint gives text a tone if the style has colours.
func (s Style) Paint(text string, tone Tone) string {
	if !s.Color || tone == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(tone) + "m" + text + "\x1b[0m"
}

const gap = 2

// Table aligns rows under a header. The last column is not padded, and is cut
// at the style's width: it holds the longest text.
func (s Style) Table(header []string, rows [][]Cell) string {
	widths := make([]int, len(header))
	for i, h := range header {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range rows {
		for i, c := range row {
			if n := utf8.RuneCountInString(c.Text); i < len(widths) {
				widths[i] = max(widths[i], n)
			}
		}
	}
	var b strings.Builder
	head := make([]Cell, len(header))
	for i, h := range header {
		head[i] = Cell{h, Bold}
	}
	for _, row := range append([][]Cell{head}, rows...) {
		used := 0
		for i, c := range row {
			last := i == len(row)-1
			text := format.OneLine(c.Text)
			if s.Width > 0 {
				text = cut(text, s.Width-used)
			}
			b.WriteString(s.Paint(text, c.Tone))
			if !last && i < len(widths) {
				pad := max(0, widths[i]-utf8.RuneCountInString(text)) + gap
				used += utf8.RuneCountInString(text) + pad
				if s.Width > 0 && used >= s.Width {
					break
				}
				b.WriteString(strings.Repeat(" ", pad))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// cut shortens text to n columns.
func cut(text string, n int) string {
	if n <= 0 {
		return ""
	}
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// Line is one painted line, cut at the style's width.
func (s Style) Line(text string, tone Tone) string {
	text = format.OneLine(text)
	if s.Width > 0 {
		text = cut(text, s.Width)
	}
	return s.Paint(text, tone) + "\n"
}

// Fields prints names and values side by side; empty values are left out.
func (s Style) Fields(pairs ...Field) string {
	width := 0
	for _, p := range pairs {
		if p.Value.Text != "" {
			width = max(width, utf8.RuneCountInString(p.Name))
		}
	}
	var b strings.Builder
	for _, p := range pairs {
		if p.Value.Text == "" {
			continue
		}
		text := format.OneLine(p.Value.Text)
		if s.Width > 0 {
			text = cut(text, s.Width-width-gap)
		}
		b.WriteString(s.Paint(p.Name, Bold) + strings.Repeat(" ", width-utf8.RuneCountInString(p.Name)+gap) + s.Paint(text, p.Value.Tone) + "\n")
	}
	return b.String()
}

// Field is one named value.
type Field struct {
	Name  string
	Value Cell
}
