package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// entry is one argument or block on a page.
type entry struct {
	name, word, about             string
	required, computed, writeOnly bool
	// nested are the entries below it; nil for plain arguments.
	nested []entry
}

func schemaText(block *tfprotov6.SchemaBlock) string {
	entries := entriesOf(block)
	return "## Schema\n\n" + sections(entries, "") + nestedText(entries, "")
}

func entriesOf(block *tfprotov6.SchemaBlock) []entry {
	out := attributesOf(block.Attributes)
	for _, b := range block.BlockTypes {
		word := "Block"
		if b.Nesting == tfprotov6.SchemaNestedBlockNestingModeList {
			word = "Block List"
		}
		out = append(out, entry{name: b.TypeName, word: word, about: b.Block.Description, nested: append([]entry{}, entriesOf(b.Block)...)})
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out
}

func attributesOf(list []*tfprotov6.SchemaAttribute) []entry {
	out := []entry{}
	for _, a := range list {
		e := entry{name: a.Name, about: a.Description, required: a.Required, computed: a.Computed && !a.Optional, writeOnly: a.WriteOnly}
		if a.NestedType != nil {
			e.word, e.nested = "Attributes List", attributesOf(a.NestedType.Attributes)
		} else {
			e.word = typeWord(a.Type)
		}
		if a.Sensitive {
			e.word += ", Sensitive"
		}
		if a.WriteOnly {
			e.word += ", Write-only"
		}
		out = append(out, e)
	}
	return out
}

func typeWord(typ tftypes.Type) string {
	switch of := typ.(type) {
	case tftypes.List:
		return "List of " + typeWord(of.ElementType)
	case tftypes.Map:
		return "Map of " + typeWord(of.ElementType)
	}
	switch {
	case typ.Is(tftypes.String):
		return "String"
	case typ.Is(tftypes.Number):
		return "Number"
	case typ.Is(tftypes.Bool):
		return "Boolean"
	}
	return typ.String()
}

// sections groups the entries by the party that sets them.
func sections(entries []entry, at string) string {
	text := ""
	for _, s := range []struct {
		title string
		has   func(entry) bool
	}{
		{"Required", func(e entry) bool { return e.required }},
		{"Optional", func(e entry) bool { return !e.required && !e.computed }},
		{"Read-Only", func(e entry) bool { return e.computed }},
	} {
		lines := ""
		for _, e := range entries {
			if s.has(e) {
				lines += line(e, at)
			}
		}
		if lines == "" {
			continue
		}
		if at == "" {
			text += "### " + s.title + "\n\n" + lines + "\n"
		} else {
			text += s.title + ":\n\n" + lines + "\n"
		}
	}
	return text
}

func line(e entry, at string) string {
	text := fmt.Sprintf("- `%s` (%s) %s", e.name, e.word, strings.TrimSpace(e.about))
	if len(e.nested) > 0 {
		text += fmt.Sprintf(" (see [below for nested schema](#nestedblock--%s))", anchor(at, e.name))
	}
	return strings.TrimSpace(text) + "\n"
}

func anchor(at, name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(at+"."+name, "."), ".", "--")
}

func nestedText(entries []entry, at string) string {
	text := ""
	for _, e := range entries {
		if len(e.nested) == 0 {
			continue
		}
		path := strings.TrimPrefix(at+"."+e.name, ".")
		text += fmt.Sprintf("<a id=\"nestedblock--%s\"></a>\n### Nested Schema for `%s`\n\n", anchor(at, e.name), path) + sections(e.nested, path) + nestedText(e.nested, path)
	}
	return text
}
