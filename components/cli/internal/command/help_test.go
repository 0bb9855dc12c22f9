package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachCommand visits every command that a user may run.
func eachCommand(visit func(*cobra.Command)) {
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		visit(c)
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look((&App{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}).root())
}

// A user learns a command that takes flags or several words from an example.
func TestCommandsWithFlagsHaveAnExample(t *testing.T) {
	eachCommand(func(c *cobra.Command) {
		words, _ := usageWords(c.Use)
		if !c.HasSubCommands() && (c.LocalNonPersistentFlags().HasAvailableFlags() || len(words) > 1) && c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			if line != "" && !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example %q is not indented like the others", c.CommandPath(), line)
			}
		}
	})
}

// Cobra takes a text between back quotes for the placeholder of the flag's value.
func TestPlaceholdersOfFlagsAreOneWord(t *testing.T) {
	eachCommand(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
				t.Errorf("%s: --%s %s", c.CommandPath(), f.Name, name)
			}
		})
	})
}

// The help of cadre lists each command below a heading.
func TestEveryCommandHasAHeading(t *testing.T) {
	root := (&App{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}).root()
	for _, c := range root.Commands() {
		if !root.ContainsGroup(c.GroupID) || c.GroupID == "" {
			t.Errorf("%s has no heading", c.CommandPath())
		}
	}
}
