package command

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

func secretsOfDemo() []*apiv1.Secret {
	return []*apiv1.Secret{
		{Group: "cluster", Name: "gossip", Epoch: 14, RotatedAt: ago(3 * time.Hour), By: "schedule", Reason: "its time is over", NextRotation: timestamppb.New(noon.Add(21 * time.Hour)), Delivered: 4, Connected: 4},
		{Group: "web", Name: "cookie", Epoch: 3, RotatedAt: ago(40 * time.Second), By: "operator", Reason: "it was in a screenshot", Owner: "999:999", Mode: "0600",
			NextRotation: timestamppb.New(noon.Add(720 * time.Hour)), Delivered: 2, Connected: 3},
		{Group: "web", Name: "new"},
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
