package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageArgs makes wrong arguments a usage error everywhere, and a bare parent
// command with an unknown word too.
func usageArgs(c *cobra.Command) {
	if check := c.Args; check != nil && c.Runnable() {
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if _, own := errors.AsType[usageError](err); own {
				return seeHelp(cmd, err)
			}
			if err != nil {
				return seeHelp(cmd, argsError(cmd.Use, args, err))
			}
			return nil
		}
	} else if c.HasSubCommands() {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args[0])
			}
			return nil
		}
		if !c.Runnable() {
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	for _, sub := range c.Commands() {
		usageArgs(sub)
	}
}

// strictHelp makes `cadre help WORD...` reject an unknown command, like the commands themselves:
// cobra shows the help of the last command that it finds, and exits with 0.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		c.Args = func(_ *cobra.Command, words []string) error {
			found, rest, err := root.Find(words)
			if err != nil || len(rest) == 0 {
				return err
			}
			return noCommand(found, rest[0])
		}
	}
}

// strictCompletion does the same for `cadre completion`. The scripts go to the output that the root has now.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			usageArgs(c)
		}
	}
}

func noCommand(parent *cobra.Command, word string) error {
	text := fmt.Sprintf("%q is not a command of `%s`", word, parent.CommandPath())
	if name := meant(parent, word); name != "" {
		text += fmt.Sprintf(", but %q is", name)
	}
	return seeHelp(parent, errors.New(text))
}

// meant is the command that a wrong word probably stands for; "": none, or several.
func meant(parent *cobra.Command, word string) string {
	for _, c := range parent.Commands() {
		if slices.Contains(otherWords[c.Name()], word) {
			return c.Name()
		}
	}
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(word); len(near) == 1 {
		return near[0]
	}
	return ""
}

// otherWords are words of other programs for the commands of each name.
var otherWords = map[string][]string{
	"apply": {"create", "update", "deploy"}, "describe": {"get", "show", "inspect"}, "delete": {"remove", "rm", "destroy"}, "remove": {"delete", "rm"},
	"undo": {"rollback", "revert"}, "restart": {"reboot", "bounce"}, "local": {"dev"},
}

// wrongFlag is an error about a flag. The parsers of values speak of their functions; the text names the wanted form.
func wrongFlag(c *cobra.Command, err error) error {
	if wrong, is := errors.AsType[*pflag.InvalidValueError](err); is {
		f := wrong.GetFlag()
		switch kind := f.Value.Type(); {
		case kind == "duration":
			err = fmt.Errorf("--%s %s: want a time such as 30s, 10m or 2h", f.Name, wrong.GetValue())
		case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
			err = fmt.Errorf("--%s %s: want a whole number", f.Name, wrong.GetValue())
		case kind == "bool":
			err = fmt.Errorf("--%s %s: want true or false", f.Name, wrong.GetValue())
		}
	}
	return seeHelp(c, err)
}

func seeHelp(c *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())}
}

// argsError describes the problem of args by the command's usage line: the missing word, or the
// words too many. otherwise is the error where the line does not show it.
func argsError(use string, args []string, otherwise error) error {
	words, most := usageWords(use)
	for i, w := range words {
		if i >= len(args) && !w.optional {
			return fmt.Errorf("%s is missing", w.name)
		}
	}
	if most >= 0 && len(args) > most {
		return fmt.Errorf("too many words: %s", strings.Join(args[most:], " "))
	}
	return otherwise
}

// usageWord is one word that a command takes, such as GROUP.
type usageWord struct {
	name     string
	optional bool
}

// usageWords reads a line of usage such as "logs CVM [SERVICE]": its words up to the first
// flag, and how many the command takes at most; -1 where the last one may be repeated.
func usageWords(use string) (words []usageWord, most int) {
	repeated := false
	for i, field := range strings.Fields(use) {
		switch {
		case i == 0 || field == "--":
			continue
		case strings.HasPrefix(field, "--"):
			return words, len(words)
		}
		name := strings.Trim(field, "[]")
		short := strings.TrimSuffix(name, "...")
		repeated = short != name
		words = append(words, usageWord{name: short, optional: strings.HasPrefix(field, "[")})
	}
	if repeated {
		return words, -1
	}
	return words, len(words)
}
