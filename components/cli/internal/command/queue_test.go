package command

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

func TestQueuePictures(t *testing.T) {
	b := newBench(t)
	since := timestamppb.New(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		name string
		args []string
	}{
		{"limits_set_help", []string{"limits", "set", "--help"}},
		{"limits_show_none", []string{"limits", "show"}},
		{"queue_empty", []string{"queue"}},
		{"limits_set", []string{"limits", "set", "--steps", "1", "--creations", "4", "--reason", "one host"}},
		{"limits_show", []string{"limits", "show"}},
		{"queue_list", []string{"queue"}},
		{"queue_list_json", []string{"queue", "-o", "json"}},
		{"limits_clear", []string{"limits", "clear"}},
		{"limits_clear_again", []string{"limits", "clear"}},
	} {
		if c.name == "limits_show" {
			b.SetQueue(&apiv1.LimitsUsed{Steps: 1, Rollouts: 2}, &apiv1.QueueEntry{Group: "postgres", Slot: "postgres-1", Kind: "UPDATE", Actor: "rollout", By: "ann", Priority: 90, State: "running", Operation: "postgres-3-aaaa.1.postgres-1", Phase: "BOOTING"},
				&apiv1.QueueEntry{Group: "etcd", Slot: "etcd-0", Kind: "RESTART", Actor: "healing", Priority: 50, State: "begins"},
				&apiv1.QueueEntry{Group: "web", Slot: "web-2", Kind: "UPDATE", Actor: "rollout", By: "ben", Priority: 50, State: "waits", Since: since,
					Holds: []*apiv1.QueueHold{{Predicate: "cluster_limit", Message: "the cluster limit steps = 1 is used by postgres"}}},
				&apiv1.QueueEntry{Group: "app", Slot: "app-0", Kind: "CREATE", Actor: "scaling", By: "ben", Priority: 50, State: "held",
					Holds: []*apiv1.QueueHold{{Predicate: "after_group", Message: "waits for group postgres: its rollout is RUNNING"}, {Predicate: "paused", Message: "the group is paused"}}})
		}
		code, out := b.run(c.args...)
		if code != ExitOK {
			t.Errorf("%s: exit %d: %s", c.name, code, out)
		}
		golden(t, c.name, out)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	b := newBench(t)
	for args, says := range map[string]string{
		"limits set --reason x":                 "--steps, --rollouts, --creations: set at least one",
		"limits set --steps 2":                  "--reason: is missing",
		"limits set --rollouts 1001 --reason x": "--rollouts 1001: use 1 to 1000",
		"limits set --creations -1 --reason x":  "--creations -1",
		"limits set --steps 0 --creations 1001": "\n  --steps 0: use 1 to 1000; to stop all work: cadre freeze\n  --creations 1001: use 1 to 1000; to stop all work: cadre freeze\n  --reason: is missing: ",
	} {
		if code, out := b.run(strings.Fields(args)...); code != ExitUsage || !strings.Contains(out, says) {
			t.Errorf("%s: exit %d: %s", args, code, out)
		}
	}
}
