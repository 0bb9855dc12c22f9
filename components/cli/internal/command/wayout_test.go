package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

const undecided = "worker-4-ffeeddcc.2.worker-1"

// stuck is a group with an undecided platform call, a lost CVM and lost records.
func stuck(b *bench) {
	b.Set("worker", func(g *clienttest.Group) {
		midRollout(g)
		g.Operations = []operation.Operation{{
			ID: undecided, Rollout: "worker-4-ffeeddcc", Group: "worker", Slot: "worker-1", Kind: operation.Restart, Actor: operation.ActorOperator, Request: operation.Request{ID: "restart-1f", Note: "it leaks", By: "cadre-operator (1f0a)"},
			Phase: operation.Acting, Reason: "platform_result_unknown: the call's effect cannot be told; look at the CVM on the platform", CVM: operation.CVM{VMUUID: "vm-1", InstanceID: instance}, Call: operation.Call{Number: 1, Outcome: operation.OutcomeUnknown}, Term: 7,
			Times: operation.Times{Created: noon.Add(-20 * time.Minute)}, Entered: operation.PhaseTimes{operation.Draining: noon.Add(-19 * time.Minute), operation.Acting: noon.Add(-18 * time.Minute)},
		}, {
			ID: "worker-4-ffeeddcc.1.worker-2", Group: "worker", Slot: "worker-2", Kind: operation.Update, Actor: operation.ActorRollout, Phase: operation.Booting, Reason: "waits for the new boot",
			Times: operation.Times{Created: noon.Add(-3 * time.Minute), HealthyBy: noon.Add(7 * time.Minute)},
		}}
	})
	hash := strings.Repeat("0c", 32)
	b.SetWayOut(clienttest.WayOut{
		Replacement: &apiv1.ReplaceInstanceResponse{VmUuid: "vm-1", InstanceId: instance, PlatformName: "demo-worker-1", Warnings: []string{"the spec preserves the disk \"data\", which is lost anyway"}},
		Retried:     &apiv1.RetryRolloutResponse{Changed: true, Rollout: "worker-4", RolloutState: "FAILED"},
		Promoted:    &apiv1.PromoteRolloutResponse{Changed: true, Rollout: "worker-4", Stage: 1, Stages: 2},
		Deleted:     &apiv1.DeleteGroupResponse{Changed: true, Slots: []string{"worker-0", "worker-1"}, Warnings: []string{"running members lose their credentials: worker-0"}},
		Warnings:    []string{"the leader assumes that RESTART had no effect"},
		HeldDisks:   []string{"worker-2"},
		Adoptable: []rollout.Adoptable{
			{Slot: "worker-0", PlatformName: "demo-worker-0", PlatformStatus: "running", VMUUID: "vm-0", InstanceID: instance, ComposeHash: hash, Revision: runs, Number: 6, VIP: "127.50.1.1", AttestedAt: noon.Add(-20 * time.Second)},
			{Slot: "worker-1", Ordinal: 1, PlatformName: "demo-worker-1", PlatformStatus: "running", VMUUID: "vm-1", Missing: "its agent has attested nothing yet"},
		},
		Carried: map[string]operation.Operation{
			"restart": {ID: "o-1", Slot: "worker-1", Kind: operation.Restart, Phase: operation.Done},
			"replace": {ID: "o-2", Slot: "worker-1", Kind: operation.Replace, Phase: operation.Failed, Reason: "the platform refused: no capacity"},
		},
	})
}

func TestWayOutPictures(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"operation_list":                {ExitOK, []string{"operation", "list"}},
		"operation_show":                {ExitOK, []string{"operation", "show", undecided}},
		"operation_help":                {ExitOK, []string{"operation", "--help"}},
		"operation_mark_failed_help":    {ExitOK, []string{"operation", "mark-failed", "--help"}},
		"operation_mark_succeeded_help": {ExitOK, []string{"operation", "mark-succeeded", "--help"}},
		"operation_mark_failed_unsure":  {ExitUsage, []string{"operation", "mark-failed", undecided, "--reason", "no trace of it"}},
		"operation_mark_failed":         {ExitOK, []string{"operation", "mark-failed", undecided, "--reason", "no trace of it", "--confirm", "worker-1"}},
		"instance_replace_help":         {ExitOK, []string{"instance", "replace", "--help"}},
		"instance_replace_unsure":       {ExitUsage, []string{"instance", "replace", "worker-1", "--reason", "its host burnt"}},
		"instance_restart_wait":         {ExitOK, []string{"instance", "restart", "worker-1", "--reason", "it leaks"}},
		"instance_restart_service":      {ExitOK, []string{"instance", "restart", "worker-1", "--service", "web", "--reason", "it leaks"}},
		"rollout_retry":                 {ExitOK, []string{"rollout", "retry", "worker", "--reason", "the host is back"}},
		"rollout_promote":               {ExitOK, []string{"rollout", "promote", "worker", "--reason", "it is as fast as before"}},
		"rollout_promote_help":          {ExitOK, []string{"rollout", "promote", "--help"}},
		"rollout_retry_help":            {ExitOK, []string{"rollout", "retry", "--help"}},
		"group_delete_help":             {ExitOK, []string{"group", "delete", "--help"}},
		"group_delete_unsure":           {ExitUsage, []string{"group", "delete", "worker", "--delete-disks", "--reason", "moved"}},
		"group_apply_help":              {ExitOK, []string{"group", "apply", "--help"}},
		"group_apply_unsure":            {ExitUsage, []string{"group", "apply", b.file("1", "10"), "--delete-disks", "--reason", "half the load is gone"}},
		"group_adopt_help":              {ExitOK, []string{"group", "adopt", "--help"}},
		"group_adopt_unsure":            {ExitUsage, []string{"group", "adopt", "worker"}},
		"group_adopt":                   {ExitOK, []string{"group", "adopt", "worker", "--reason", "an old snapshot", "--confirm", "worker"}},
	} {
		t.Run(name, func(t *testing.T) {
			stuck(b)
			code, out := b.run(c.args...)
			if code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			golden(t, name, out)
		})
	}
}

// TestR142_NothingIsLostUnconfirmed: a wrong or missing confirmation changes nothing.
func TestR142_NothingIsLostUnconfirmed(t *testing.T) {
	b := newBench(t)
	stuck(b)
	for _, args := range [][]string{
		{"instance", "replace", "worker-1"},
		{"instance", "replace", "worker-1", "--yes"},
		{"instance", "replace", "worker-1", "--reason", "x", "--confirm", "worker-2"},
		{"operation", "mark-succeeded", undecided, "--yes"},
		{"operation", "mark-failed", undecided, "--yes"},
		{"operation", "mark-succeeded", undecided, "--reason", "x", "--confirm", "worker-2"},
		{"rollout", "retry", "worker"},
		{"group", "delete", "worker", "--reason", "x", "--yes"},
		{"group", "delete", "worker", "--keep-cvms", "--delete-disks", "--reason", "x", "--yes"},
		{"group", "delete", "worker", "--keep-cvms", "--yes"},
		{"group", "delete", "worker", "--keep-cvms", "--reason", "x", "--confirm", "worker-1"},
		{"group", "delete", "worker", "--cancel", "--keep-cvms"},
		{"group", "adopt", "worker", "--yes"},
		{"group", "adopt", "worker", "--reason", "x", "--confirm", "worker-0"},
		{"group", "adopt", "worker", "--reason", "x", "--slot", "worker-9", "--yes"},
		{"group", "apply", b.file("1", "10"), "--delete-disks"},
		{"group", "apply", b.file("1", "10"), "--delete-disks", "--reason", "x"},
		{"group", "apply", b.file("1", "10"), "--delete-disks", "--reason", "x", "--confirm", "worker-2"},
	} {
		if code, out := b.run(args...); code != ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
	if got := b.Decided(); len(got) != 0 {
		t.Errorf("decided %q", got)
	}
	b.Set("worker", func(g *clienttest.Group) {
		if g.Index != 41 {
			t.Errorf("the spec was written, index %d", g.Index)
		}
	})
}

// The answer to a promotion names the closed gate, or the reason why nothing is promoted.
func TestAPromotionSaysWhatFollows(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	for want, promoted := range map[string]*apiv1.PromoteRolloutResponse{
		"stage 1 of 2 of rollout worker-4 is promoted; it still waits: gate worker/alarm is closed; watch it": {Changed: true, Rollout: "worker-4", Stage: 1, Stages: 2, Message: "stage 1 of 2 has baked", Gates: "gate worker/alarm is closed"},
		"nothing of worker is promoted: stage 1 of 2 bakes":                                                   {Rollout: "worker-4", Stages: 2, Message: "stage 1 of 2 bakes"},
		"nothing of worker is promoted: no stage is open":                                                     {},
	} {
		b.SetWayOut(clienttest.WayOut{Promoted: promoted})
		if code, out := b.run("rollout", "promote", "worker"); code != ExitOK || !strings.Contains(out, want) {
			t.Errorf("exit %d, want %q\n%s", code, want, out)
		}
	}
}

func TestAConfirmedCommandSendsItsRequest(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"instance", "replace", "worker-1", "--reason", "burnt", "--yes"}, ExitOK, "replace worker-1: burnt"},
		{[]string{"instance", "replace", "worker-1", "--reason", "burnt", "--confirm", "worker-1", "--wait"}, ExitRollout, "replace worker-1: burnt"},
		{[]string{"instance", "restart", "worker-1", "--reason", "leaks", "--wait"}, ExitOK, "restart worker-1: leaks"},
		{[]string{"operation", "mark-succeeded", undecided, "--reason", "seen", "--yes", "-o", "json"}, ExitOK, "resolve " + undecided + " as done: seen"},
		{[]string{"group", "delete", "worker", "--keep-cvms", "--reason", "moved", "--yes", "--wait"}, ExitOK, "delete worker keep_cvms=true delete_disks=false cancel=false moved"},
		{[]string{"group", "adopt", "worker", "--reason", "old", "--yes", "--wait"}, ExitOK, "adopt worker worker-0=" + instance + "/" + strings.Repeat("0c", 32) + " old"},
		{[]string{"group", "apply", b.file("1", "10"), "--delete-disks", "--reason", "half the load", "--confirm", "worker"}, ExitOK, "delete disks worker half the load"},
	} {
		stuck(b)
		code, out := b.run(c.args...)
		if got := b.Decided(); code != c.code || len(got) == 0 || got[len(got)-1] != c.want {
			t.Errorf("%v: exit %d, decided %q\n%s", c.args, code, got, out)
		}
	}
}

// TestEachGroupThatLosesDisksIsConfirmedByItsName: each group of a file needs its own confirmation.
// The command writes the specs only after all confirmations.
func TestEachGroupThatLosesDisksIsConfirmedByItsName(t *testing.T) {
	b := newBench(t)
	worker := b.file("1", "10")
	text, err := os.ReadFile(worker)
	if err != nil {
		t.Fatal(err)
	}
	other := func(name string) string {
		path := filepath.Join(t.TempDir(), name+".hcl")
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), `"worker"`, `"`+name+`"`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	apply := []string{"group", "apply", worker, other("queue"), other("whole"), "--delete-disks", "--reason"}
	for _, c := range []struct {
		confirm []string
		code    int
		want    string
	}{
		{nil, ExitUsage, "nothing is changed: add --confirm worker --confirm queue\n"},
		{[]string{"--confirm", "worker"}, ExitUsage, "nothing is changed: add --confirm queue\n"},
		{[]string{"--confirm", "queue"}, ExitUsage, "nothing is changed: add --confirm worker\n"},
		{[]string{"--confirm", "whole"}, ExitUsage, "nothing is changed: add --confirm worker --confirm queue\n"},
		{[]string{"--confirm", "queue", "--confirm", "worker"}, ExitOK, "group whole applied"},
		{[]string{"--confirm", "worker,queue"}, ExitOK, "group whole applied"},
		{[]string{"--yes"}, ExitOK, "group whole applied"},
	} {
		stuck(b)
		for _, name := range []string{"queue", "whole"} {
			b.Set(name, func(g *clienttest.Group) { g.Spec, g.Index = group.Spec{Name: name, Replicas: 4}, 41 })
		}
		b.SetWayOut(clienttest.WayOut{HeldDisks: []string{"worker-2", "queue-3"}})
		before := len(b.Decided())
		code, out := b.run(slices.Concat(apply, []string{"as " + strings.Join(c.confirm, " ")}, c.confirm)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d\n%s", c.confirm, code, out)
		}
		if !strings.Contains(out, "the disks of worker-2") || !strings.Contains(out, "the disks of queue-3") || strings.Contains(out, "whole-") {
			t.Errorf("%v: not said which disks\n%s", c.confirm, out)
		}
		for _, name := range []string{"worker", "queue", "whole"} {
			b.Set(name, func(g *clienttest.Group) {
				if written := g.Index != 41; written != (c.code == ExitOK) {
					t.Errorf("%v: %s written: %v", c.confirm, name, written)
				}
			})
		}
		if gave := len(b.Decided()) - before; (gave == 2) != (c.code == ExitOK) || gave == 1 {
			t.Errorf("%v: the disks of %d groups are given up", c.confirm, gave)
		}
	}
}

// TestAScaleInReportsAtOnceThatDisksBlockIt: the report comes before the wait.
func TestAScaleInReportsAtOnceThatDisksBlockIt(t *testing.T) {
	b := newBench(t)
	stuck(b)
	if _, out := b.run("group", "apply", b.file("1", "10")); !strings.Contains(out, "blocked(delete_disks): worker-2") || !strings.Contains(out, "--delete-disks --reason") {
		t.Error(out)
	}
	b.SetWayOut(clienttest.WayOut{})
	if code, out := b.run("group", "apply", b.file("2", "10"), "--delete-disks", "--reason", "none is held"); code != ExitOK {
		t.Errorf("no disk would be lost, and nothing needs a word: exit %d\n%s", code, out)
	}
}

// The plan of an apply with --delete-disks does not ask for --delete-disks.
func TestThePlanKnowsTheFlagsOfTheApply(t *testing.T) {
	b := newBench(t)
	for want, flags := range map[string][]string{
		"delete_disks: give it up with --delete-disks":                nil,
		"delete_disks: --delete-disks needs --confirm worker as well": {"--delete-disks", "--reason", "x"},
		"delete_disks: given up by this apply":                        {"--delete-disks", "--reason", "x", "--confirm", "worker"},
	} {
		stuck(b)
		b.Set("worker", func(g *clienttest.Group) {
			g.Plan.Actions = []rollout.Action{{Slot: "worker-2", Kind: operation.Delete, Holds: []rollout.Hold{{Predicate: rollout.HoldDeleteDisks, Message: "give it up with --delete-disks"}}}}
		})
		if _, out := b.run(append([]string{"group", "apply", b.file("1", "10")}, flags...)...); strings.Count(out, "delete_disks: ") != 1 || !strings.Contains(out, want) {
			t.Errorf("%v: no %q in\n%s", flags, want, out)
		}
	}
}

// The same spec does not begin a failed rollout again: the apply names the command that does.
func TestAnUnchangedGroupNamesItsFailedRollout(t *testing.T) {
	b := newBench(t)
	const hint = "; to try again: cadre rollout retry worker --reason WHY\n"
	for state, hinted := range map[string]bool{"ROLLED_BACK": true, "FAILED": true, "RUNNING": false, "COMPLETE": false} {
		b.Set("worker", midRollout)
		path := b.file("1", "10")
		if code, out := b.run("group", "apply", path); code != ExitOK {
			t.Fatal(out)
		}
		b.Set("worker", func(g *clienttest.Group) { g.Status.RolloutState = state })
		for _, verb := range []string{"apply", "diff"} {
			if code, out := b.run("group", verb, path); code != ExitOK || !strings.Contains(out, "is unchanged") || strings.Contains(out, "its rollout is "+state) != hinted || strings.Contains(out, hint) != hinted {
				t.Errorf("%s of a group that is %s: exit %d\n%s", verb, state, code, out)
			}
		}
	}
}

// TestARequestIsCancelledByItsPrefix: a request that does not wait is NotFound.
func TestARequestIsCancelledByItsPrefix(t *testing.T) {
	b := newBench(t)
	stuck(b)
	const id = "restart-0f3a5c1b8d2e4f60718293a4b5c6d7e8"
	b.SetWayOut(clienttest.WayOut{Waiting: []client.Asked{{ID: id, Kind: "restart", Group: "worker", Slot: "worker-1"}}})
	if code, out := b.run("__complete", "operation", "cancel", ""); code != ExitOK || !strings.Contains(out, id+"\trestart of worker-1\n") {
		t.Errorf("completion: exit %d\n%s", code, out)
	}
	if code, out := b.run("operation", "cancel", "restart-77"); code != ExitNotFound || !strings.Contains(out, "cadre operation requests") {
		t.Errorf("unknown request: exit %d\n%s", code, out)
	}
	if code, out := b.run("operation", "cancel", "restart-0f3a"); code != ExitOK || !strings.Contains(out, "restart-0f3a is cancelled") {
		t.Errorf("cancel: exit %d\n%s", code, out)
	}
	if code, _ := b.run("operation", "cancel", "restart-0f3a"); code != ExitNotFound {
		t.Errorf("second cancel: exit %d", code)
	}
}
