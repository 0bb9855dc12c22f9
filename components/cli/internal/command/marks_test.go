package command

import (
	"testing"

	"cadre.dev/client/clienttest"
)

func TestMarkPictures(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) { midRollout(g) })
	for _, c := range []struct {
		name string
		args []string
	}{
		{"instance_drain_help", []string{"instance", "drain", "--help"}},
		{"instance_drain", []string{"instance", "drain", "worker-1", "--for", "2h", "--reason", "its host gets memory"}},
		{"instance_protect", []string{"instance", "protect", "worker-0", "--reason", "a report reads from it"}},
		{"freeze", []string{"freeze", "--for", "72h", "--reason", "the big days"}},
		{"freeze_group", []string{"freeze", "worker", "--reason", "we look into the lag"}},
		{"marks", []string{"marks"}},
		{"instance_undrain", []string{"instance", "undrain", "worker-1"}},
		{"instance_unprotect", []string{"instance", "unprotect", "worker-1"}},
		{"unfreeze", []string{"unfreeze"}},
		{"marks_left", []string{"marks", "-o", "json"}},
	} {
		code, out := b.run(c.args...)
		if code != ExitOK {
			t.Errorf("%s: exit %d", c.name, code)
		}
		golden(t, c.name, out)
	}
}

func TestAMarkNeedsAReason(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{
		{"instance", "drain", "worker-1"}, {"instance", "drain", "--reason", "x"}, {"instance", "protect", "worker-1", "--reason", " "},
		{"freeze"}, {"freeze", "worker", "other", "--reason", "x"}, {"freeze", "worker", "--reason", "x", "--for", "-1h"},
	} {
		if code, out := b.run(args...); code != ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
}
