package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/audit"
)

// auditOfDemo is a chain of five acts, of which the first removed ones are gone.
func auditOfDemo(removed int, last string) (head audit.Head, entries []audit.Entry) {
	digest := func(text string) string { return audit.ValueDigest([]byte(text), true) }
	for n, e := range []audit.Entry{
		{Who: audit.Leader, By: "coordinator-1", Verb: "lead", Object: "lease/term", Before: digest("3"), After: digest("4"), Reason: "term 4"},
		{Who: audit.Operator, By: "ann (0a1b2c3d-4e5f-4061-8728-394a5b6c7d8e)", Request: "ticket-7", Verb: "apply", Object: "groups/web/spec", Before: digest("one"), After: digest("two")},
		{Who: audit.Leader, By: "coordinator-1", Request: "ticket-7", Verb: "start-rollout", Object: "rollouts/web-2", After: digest("r"), Reason: "group web, revision 0011aabb, spec by ann"},
		{Who: audit.KV, By: "unknown (written to Consul KV)", Verb: "edit", Object: "control/freeze/_all", After: digest("f")},
		{Who: audit.Operator, By: "bob", Verb: "end-freeze", Object: "control/freeze/_all", Before: digest("f"), Reason: last},
	} {
		e.At = noon.Add(time.Duration(n-5) * time.Hour)
		head, e = head.Append(e)
		if n < removed {
			head.Checkpoint = head.Last
			continue
		}
		entries = append(entries, e)
	}
	return head, entries
}

func TestAuditPictures(t *testing.T) {
	b := newBench(t)
	head, entries := auditOfDemo(0, "all is well")
	b.SetAudit(head, entries, noon)
	for name, args := range map[string][]string{
		"audit":             {"audit"},
		"audit_since":       {"audit", "--since", "2h30m"},
		"audit_object_json": {"audit", "--object", "web", "--since", "0", "-o", "json"},
		"audit_none":        {"audit", "--object", "other"},
		"audit_help":        {"audit", "--help"},
		"audit_export_help": {"audit", "export", "--help"},
		"audit_verify_help": {"audit", "verify", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := b.run(args...)
			if code != ExitOK {
				t.Errorf("exit %d", code)
			}
			golden(t, name, out)
		})
	}
}

// TestCTL21_AnExportIsVerifiedOffline: an export proves itself without a coordinator, a changed one
// is refused, and an export continues each earlier one of the same chain.
func TestCTL21_AnExportIsVerifiedOffline(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	export := func(name string, removed int, last string) {
		t.Helper()
		head, entries := auditOfDemo(removed, last)
		b.SetAudit(head, entries, noon)
		if code, out := b.run("audit", "export", "-o", path(name)); code != ExitOK || !strings.Contains(out, "whole and unchanged") {
			t.Fatalf("export: %d %s", code, out)
		}
	}
	export("old", 0, "all is well")
	export("new", 2, "all is well")
	export("fork", 0, "another reason")
	text, err := os.ReadFile(path("old"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	for name, changed := range map[string][]byte{
		"edited":  bytes.Replace(text, []byte("ticket-7"), []byte("ticket-8"), 1),
		"cut":     bytes.Join(append(lines[:3:3], lines[4:]...), nil),
		"ordered": bytes.Join(append([][]byte{lines[1], lines[0]}, lines[2:]...), nil),
		"no head": bytes.Join(lines[:5], nil),
		"empty":   nil,
	} {
		if err := os.WriteFile(path(name), changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.Fail("ListAudit", os.ErrClosed)
	b.Fail("GetAuditHead", os.ErrClosed)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{path("old")}, ExitOK, "entries 1 to 5"},
		{[]string{path("new")}, ExitOK, "entries 3 to 5"},
		{[]string{path("new"), "--against", path("old")}, ExitOK, "it continues"},
		{[]string{path("new"), "-o", "json"}, ExitOK, `"entries": 3`},
		{[]string{path("fork"), "--against", path("old")}, ExitRefused, "entry 5 differs from the earlier export"},
		{[]string{path("edited")}, ExitRefused, "AUDIT_CHAIN_BROKEN"},
		{[]string{path("cut")}, ExitRefused, "AUDIT_CHAIN_BROKEN"},
		{[]string{path("ordered")}, ExitRefused, "AUDIT_CHAIN_BROKEN"},
		{[]string{path("no head")}, ExitRefused, "no signed head"},
		{[]string{path("empty")}, ExitRefused, "no signed head"},
		{[]string{path("none")}, ExitError, "no such file"},
		{[]string{path("old"), "--against", path("none")}, ExitError, "no such file"},
		{nil, ExitUsage, ""},
	} {
		if code, out := b.run(append([]string{"audit", "verify"}, c.args...)...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d, want %d with %q: %s", c.args, code, c.code, c.want, out)
		}
	}
	for _, args := range [][]string{{"audit", "--since", "-1h"}, {"audit", "export"}, {"audit", "--since", "soon"}} {
		if code, out := b.run(args...); code != ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
}
