package command

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/client"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

func operatorsOfDemo() []*apiv1.Operator {
	return []*apiv1.Operator{
		{Name: "first", Role: "admin", Used: ago(300 * time.Hour), By: "the coordinators' trust file"},
		{Name: "ann", Role: "operate", Groups: []string{"web", "worker"}, Used: ago(26 * time.Hour), Expires: timestamppb.New(noon.Add(80 * 24 * time.Hour)), By: "cadre-operator (1f0a)", NextExpires: timestamppb.New(noon.Add(90 * 24 * time.Hour))},
		{Name: "bob", Role: "approve", Expires: timestamppb.New(noon.Add(5 * 24 * time.Hour)), By: "operator ann (2c1b)"},
		{Name: "eve", Role: "view", Used: ago(900 * time.Hour), Expires: timestamppb.New(noon.Add(-time.Hour)), By: "operator ann (2c1b)"},
		{Name: "typo", Fault: "unknown field \"rolle\""},
	}
}

func TestOperatorPictures(t *testing.T) {
	b := newBench(t)
	for name, args := range map[string][]string{
		"operator_list":        {"operator", "list"},
		"operator_list_json":   {"operator", "list", "-o", "json"},
		"operator_show":        {"operator", "show"},
		"operator_remove":      {"operator", "remove", "eve"},
		"operator_add_help":    {"operator", "add", "--help"},
		"operator_rotate_help": {"operator", "rotate", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			b.SetOperators(operatorsOfDemo())
			code, out := b.run(args...)
			if code != ExitOK {
				t.Errorf("exit %d", code)
			}
			golden(t, name, out)
		})
	}
}

// TestCTL13_ANewTokenStaysOnTheOperatorsMachine: the coordinators get its digest. The file is for its
// owner alone, and has no secret of the operator who made it.
func TestCTL13_ANewTokenStaysOnTheOperatorsMachine(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "ann.json")
	code, out := b.run("operator", "add", "ann", "--role", "operate", "--groups", "web,worker", "--for", "30d", "--file", file)
	if code != ExitOK || !strings.Contains(out, "role operate, groups web,worker, for 30d") {
		t.Fatalf("exit %d: %s", code, out)
	}
	made, err := client.LoadContext(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if strings.Contains(out, made.Token) || made.Platform.APIKey != "" || made.CoordinatorAppNonce != "" || made.CAPEM == "" {
		t.Errorf("the context is %+v", made)
	}
	sum := sha256.Sum256([]byte(made.Token))
	if got := b.TokenDigests(); !slices.Equal(got, []string{hex.EncodeToString(sum[:])}) {
		t.Errorf("the coordinators got %q", got)
	}
	if code, out = b.run("operator", "rotate", "ann", "-o", "json"); code != ExitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	var shown struct{ Token string }
	if err := json.Unmarshal([]byte(out), &shown); err != nil || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(shown.Token) {
		t.Errorf("the token is %q, %v", shown.Token, err)
	}
}

func TestOperatorsBadInput(t *testing.T) {
	b := newBench(t)
	b.SetOperators(operatorsOfDemo())
	taken := filepath.Join(t.TempDir(), "taken.json")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	unused := filepath.Join(t.TempDir(), "unused.json")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"add"}, ExitUsage, "NAME"},
		{[]string{"add", "x"}, ExitUsage, "--role is missing"},
		{[]string{"add", "x", "--role", "view", "--for", "soon"}, ExitUsage, "--for \"soon\" is not a time"},
		{[]string{"add", "x", "--role", "view", "--for", "-3h"}, ExitUsage, "--for \"-3h\" is not a time"},
		{[]string{"add", "x", "--role", "view", "--for", "99999999d"}, ExitUsage, "is not a time"},
		{[]string{"add", "x", "--role", "operate", "--groups", ""}, ExitUsage, "--groups names no group"},
		{[]string{"add", "x", "--role", "view", "--file", taken}, ExitUsage, "exists already"},
		{[]string{"add", "ann", "--role", "view", "--file", unused}, ExitRefused, "operator ann exists already"},
		{[]string{"remove", "none"}, ExitNotFound, "there is no operator none"},
		{[]string{"rotate", "none"}, ExitNotFound, "there is no operator none"},
	} {
		if code, out := b.run(append([]string{"operator"}, tc.args...)...); code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("%v: exit %d, want %d: %s", tc.args, code, tc.code, out)
		}
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
		t.Errorf("a file was overwritten: %s, %v", text, err)
	}
	if _, err := os.Stat(unused); err == nil {
		t.Error("the file of a refused operator stays")
	}
}
