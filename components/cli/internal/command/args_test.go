package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestArgsThatAreWrongAreNamed(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"rollout plan", "GROUP is missing; see `cadre rollout plan --help`"},
		{"rollout plan a b", "too many words: b; see `cadre rollout plan --help`"},
		{"cluster status a b", "too many words: a b; see `cadre cluster status --help`"},
		{"group apply", "FILE is missing; see"},
		{"group delete --delete-disks", "GROUP is missing; see"},
		{"admission revoke instance", "ID is missing; see"},
		{"local exec cvm", "COMMAND is missing; see"},
		{"local logs", "CVM is missing; see"},
		{"local logs a b c", "too many words: c; see"},
		{"freeze a b", "too many words: b; see"},
		{"rollout plan a --nope", "unknown flag: --nope; see `cadre rollout plan --help`"},
		{"instance drain a --for 2x", "--for 2x: want a time such as 30s, 10m or 2h; see `cadre instance drain --help`"},
		{"logs a --tail x", "--tail x: want a whole number; see"},
		{"group apply f --wait=often", "--wait often: want true or false; see"},
		{"completion nosuch", "\"nosuch\" is not a command of `cadre completion`; see"},
		{"grop list", "\"grop\" is not a command of `cadre`, but \"group\" is; see `cadre --help`"},
		{"rollout statsu web", "\"statsu\" is not a command of `cadre rollout`, but \"status\" is; see"},
		{"group show web", "\"show\" is not a command of `cadre group`, but \"describe\" is; see"},
		{"rollout rollback web", "but \"undo\" is; see"},
		{"help nosuch", "\"nosuch\" is not a command of `cadre`; see `cadre --help`"},
		{"help group nosuch", "\"nosuch\" is not a command of `cadre group`; see"},
		{"nosuch", "\"nosuch\" is not a command of `cadre`; see"},
	} {
		if code, out := run(t, strings.Fields(tt.args)...); code != ExitUsage || !strings.Contains(out, tt.want) {
			t.Errorf("cadre %s: exit %d, %q; want %q", tt.args, code, out, tt.want)
		}
	}
	if code, out := run(t, "help", "rollout", "plan"); code != ExitOK || !strings.Contains(out, "cadre rollout plan GROUP") {
		t.Errorf("help of a command: exit %d, %q", code, out)
	}
}

// TestUsageSaysHowManyWordsACommandTakes: a line of usage that promises other words than
// the command takes would name the wrong one as missing.
func TestUsageSaysHowManyWordsACommandTakes(t *testing.T) {
	app := &App{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			look(sub)
		}
		if c.HasSubCommands() || c.Name() == "help" {
			return
		}
		words, most := usageWords(c.Use)
		least := len(slices.DeleteFunc(slices.Clone(words), func(w usageWord) bool { return w.optional }))
		if c.CommandPath() == "cadre admission floor" {
			least = 0 // --all takes the place of both words
		}
		for n := range 5 {
			want := n >= least && (most < 0 || n <= most)
			if err := c.Args(c, make([]string, n)); (err == nil) != want {
				t.Errorf("%q with %d words: %v", c.Use, n, err)
			}
		}
	}
	look(app.root())
}
