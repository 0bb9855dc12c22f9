// Command gendocs writes docs/reference/cli.md from the help texts of cadre.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/command"
)

//go:generate go run . -o ../../../../docs/reference/cli.md

const head = `# Commands

<!-- Generated from the help texts in components/cli/internal/command: go generate ./components/cli/internal/gendocs -->

Each section is the help text of one command, as ` + "`cadre COMMAND --help`" + ` prints it. The
[glossary](../glossary.md) explains the nouns.
`

func main() {
	output := flag.String("o", "", "file to write; empty: standard output")
	flag.Parse()
	if err := run(*output); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func run(output string) error {
	if output == "" {
		_, err := os.Stdout.Write(render())
		return err
	}
	return os.WriteFile(output, render(), 0o644) //nolint:gosec // the page is public documentation
}

// render returns the page: an index of all commands, and one section for each. It clears the environment.
func render() []byte {
	// Defaults of flags name the home folder, and the page is the same on every machine.
	os.Clearenv()
	if err := os.Setenv("HOME", "~"); err != nil {
		panic(err)
	}
	var index, sections bytes.Buffer
	walk(command.Tree(), func(c *cobra.Command) {
		path := c.CommandPath()
		fmt.Fprintf(&index, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), strings.ReplaceAll(c.Short, "|", "\\|"))
		text := c.Long
		if text == "" {
			text = c.Short
		}
		fmt.Fprintf(&sections, "\n## %s\n\n```\n%s\n", path, strings.TrimSpace(text))
		if c.Runnable() {
			fmt.Fprintf(&sections, "\nUsage:\n  %s\n", c.UseLine())
		}
		if c.Example != "" {
			fmt.Fprintf(&sections, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
		}
		if flags := c.LocalFlags(); flags.HasAvailableFlags() {
			fmt.Fprintf(&sections, "\nFlags:\n%s", flags.FlagUsages())
		}
		sections.WriteString("```\n")
	})
	return []byte(head + "\n| command | purpose |\n|---|---|\n" + index.String() + sections.String())
}

// walk visits c and every command below it that help lists.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			walk(sub, visit)
		}
	}
}
