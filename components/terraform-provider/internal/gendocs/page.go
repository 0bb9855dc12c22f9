package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// page is one thing of the provider. Its example must be there; imported need not.
type page struct {
	title, example, imported string
	schema                   *tfprotov6.Schema
}

func short(name string) string { return strings.TrimPrefix(name, "cadre_") }

func (b *book) add(name string, p page) {
	about := p.schema.Block.Description
	text := head(p.title, about) + "## Example Usage\n\n" + b.code("terraform", p.example) + schemaText(p.schema.Block)
	if p.imported != "" {
		if shell := b.optional(p.imported); shell != "" {
			text += "\n## Import\n\n```shell\n" + shell + "```\n"
		}
	}
	b.pages[name] = text
}

func (b *book) function(name string, f *tfprotov6.Function) {
	text := head(name+" (Function)", f.Description)
	text += "## Example Usage\n\n" + b.code("terraform", filepath.Join("functions", name, "function.tf"))
	call, list := []string{}, ""
	for _, p := range f.Parameters {
		call = append(call, p.Name+" "+strings.ToLower(typeWord(p.Type)))
		list += fmt.Sprintf("1. `%s` (%s) %s\n", p.Name, typeWord(p.Type), p.Description)
	}
	text += "## Signature\n\n```text\n" + name + "(" + strings.Join(call, ", ") + ") " + strings.ToLower(typeWord(f.Return.Type)) + "\n```\n\n## Arguments\n\n" + list
	b.pages["functions/"+name] = text
}

// head is the front matter that registries read, and the page's title.
func head(title, about string) string {
	return "---\n# Generated from the provider's schema: go generate ./internal/provider\npage_title: \"" + title + " - cadre\"\nsubcategory: \"\"\ndescription: |-\n  " +
		strings.ReplaceAll(about, "\n", "\n  ") + "\n---\n\n# " + title + "\n\n" + about + "\n\n"
}

func (b *book) code(language, example string) string {
	text := b.optional(example)
	if text == "" && b.err == nil {
		b.err = fmt.Errorf("examples/%s is missing: each page has an example", example)
	}
	return "```" + language + "\n" + text + "```\n\n"
}

func (b *book) optional(example string) string {
	text, err := os.ReadFile(filepath.Join(b.root, "examples", example))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && b.err == nil {
		b.err = err
	}
	return string(text)
}
