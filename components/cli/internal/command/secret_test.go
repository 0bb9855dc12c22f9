package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/client"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

func secretsOfDemo() []*apiv1.Secret {
	return []*apiv1.Secret{
		{Group: "cluster", Name: "gossip", Epoch: 14, RotatedAt: ago(3 * time.Hour), By: "schedule", Reason: "its time is over", NextRotation: timestamppb.New(noon.Add(21 * time.Hour)), Delivered: 4, Connected: 4},
		{Group: "web", Name: "cookie", Epoch: 3, RotatedAt: ago(40 * time.Second), By: "operator", Reason: "it was in a screenshot", Owner: "999:999", Mode: "0600",
			NextRotation: timestamppb.New(noon.Add(720 * time.Hour)), Delivered: 2, Connected: 3},
		{Group: "web", Name: "new"},
		{Group: "web", Name: "s3-key", Epoch: 2, RotatedAt: ago(5 * time.Minute), By: "alice", Reason: "new key of May", Owner: "0:0", Mode: "0600", Source: "operator", Delivered: 3, Connected: 3, Ahead: 1},
		{Group: "web", Name: "tls", Owner: "0:0", Mode: "0400", Source: "operator", NoValue: true, Connected: 3},
		{Group: "worker", Name: "superuser", Epoch: 1, RotatedAt: ago(26 * time.Hour), Reason: "first seen", Delivered: 3, Connected: 3},
	}
}

func TestSecretPictures(t *testing.T) {
	b := newBench(t)
	b.SetSecrets(secretsOfDemo())
	for name, args := range map[string][]string{
		"secret_list":        {"secret", "list"},
		"secret_list_json":   {"secret", "list", "web", "-o", "json"},
		"secret_list_none":   {"secret", "list", "nobody"},
		"secret_rotate_help": {"secret", "rotate", "--help"},
		"secret_set_help":    {"secret", "set", "--help"},
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

// TestSecretSet: the value comes from a file or the standard input, never from the command line, and no
// output shows it.
func TestSecretSet(t *testing.T) {
	b := provenBench(t)
	b.SetSecrets(secretsOfDemo())
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const value = "correct-horse-battery"
	plain, line := file("plain", value), file("line", value+"\n")
	for _, tc := range []struct {
		args  []string
		in    string
		code  int
		want  string
		given string
	}{
		{[]string{"web/tls", "--from-file", plain, "--dry-run"}, "", ExitOK, "would be epoch 1 of web/tls; nothing was changed", ""},
		{[]string{"web/tls", "--from-file", plain, "--reason", "x"}, "", ExitOK, "epoch 1 of web/tls is in force; its 21 bytes", value},
		{[]string{"web/tls", "--from-file", line}, "", ExitOK, "the value ends with a line end, which is part of it", value + "\n"},
		{[]string{"web/s3-key", "--from-file", "-"}, "from a pipe", ExitOK, "epoch 3 of web/s3-key", "from a pipe"},
		{[]string{"web/tls", "--from-file", plain, "-o", "json"}, "", ExitOK, `"epoch": 3`, value},
		{[]string{"web/tls", value}, "", ExitUsage, "in the list of processes", ""},
		{[]string{"web/tls"}, "", ExitUsage, "--from-file is missing", ""},
		{[]string{}, "", ExitUsage, "name the secret", ""},
		{[]string{"web", "--from-file", plain}, "", ExitUsage, "write GROUP/NAME", ""},
		{[]string{"web/tls", "--from-file", file("empty", "")}, "", ExitUsage, "is empty", ""},
		{[]string{"web/tls", "--from-file", "-"}, "", ExitUsage, "the standard input is empty", ""},
		{[]string{"web/tls", "--from-file", file("large", strings.Repeat("x", 64<<10+1))}, "", ExitUsage, "more than 64 KiB", ""},
		{[]string{"web/tls", "--from-file", filepath.Join(dir, "none")}, "", ExitError, "read the value", ""},
		{[]string{"web/cookie", "--from-file", plain}, "", ExitNotFound, "no secret", ""},
	} {
		var buf bytes.Buffer
		app := &App{In: strings.NewReader(tc.in), Out: &buf, Err: &buf, Now: func() time.Time { return noon }, Version: "test", Dial: client.Options{CallTimeout: 5 * time.Second}}
		code := app.Run(t.Context(), append([]string{"secret", "set"}, tc.args...))
		out := buf.String()
		if code != tc.code || !strings.Contains(out, tc.want) || strings.Contains(out, value) || !strings.HasSuffix(out, "\n") {
			t.Errorf("%v: exit %d, want %d: %s", tc.args, code, tc.code, out)
		}
		if tc.given != "" && b.Given() != tc.given {
			t.Errorf("%v: the coordinator received %q", tc.args, b.Given())
		}
	}
}

func TestSecretRotate(t *testing.T) {
	b := newBench(t)
	b.SetSecrets(secretsOfDemo())
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"web/cookie", "--reason", "x"}, ExitOK, "rotation of web/cookie is asked for; epoch 3 is in force"},
		{[]string{"gossip"}, ExitOK, "rotation of cluster/gossip is asked for"},
		{[]string{"worker/superuser", "-o", "json"}, ExitOK, `"epoch": 1`},
		{[]string{"web"}, ExitUsage, "write GROUP/NAME"},
		{[]string{"web/"}, ExitUsage, "write GROUP/NAME"},
		{[]string{"web/none"}, ExitNotFound, "no secret"},
	} {
		if code, out := b.run(append([]string{"secret", "rotate"}, tc.args...)...); code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("%v: exit %d, want %d: %s", tc.args, code, tc.code, out)
		}
	}
	if code, out := b.run("secret", "list", "web"); code != ExitOK || !strings.Contains(out, "asked for") {
		t.Errorf("list after it: %d %s", code, out)
	}
}
