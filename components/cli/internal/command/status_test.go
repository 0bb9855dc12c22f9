package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// troubled is a cluster with something of every kind.
func troubled() overview.Facts {
	f := overview.Facts{
		Now: noon, Cluster: "demo", Version: "v1.2.0", CAEnds: noon.AddDate(28, 0, 0), Backup: at(80 * time.Hour),
		Coordinators: []overview.Coordinator{
			{Name: "coordinator-0", CVM: "stopped", Problem: "the platform reports CVM demo-coordinator-0 as stopped"},
			{Name: "coordinator-1", CVM: "running", Answered: true, Leader: "coordinator-1", Term: 7, Version: "v1.2.0"},
			{Name: "coordinator-2", CVM: "running", Answered: true, Leader: "coordinator-1", Term: 7, Version: "v1.1.0"},
		},
		Groups: []overview.Group{
			{Name: "postgres", Replicas: 3, Available: 2, Updated: 1, Target: "ffeeddccbbaa9988", RolloutState: "RUNNING", Message: "waits for postgres-1: booting, 38s"},
			{Name: "web", Replicas: 4, Available: 3, Updated: 3, Target: "0123456789abcdef", RolloutState: "FAILED", Message: "web-3 was not available within 10m",
				Conditions: []group.Condition{{Type: "Orphans", Status: true, Message: "CVM demo-web-9 belongs to no slot"}}},
		},
		Slots: []group.InstanceStatus{
			{Group: "postgres", Slot: "postgres-0", State: group.SlotAvailable, Holds: []group.Hold{{Predicate: "max_unavailable", Message: "1 of 1 in use by postgres-1"}}},
			{Group: "postgres", Slot: "postgres-1", State: group.SlotBooting, Since: at(38 * time.Second), Reason: "the platform accepted the update"},
			{Group: "web", Slot: "web-3", State: group.SlotQuarantined, Since: at(3 * time.Hour), Reason: "3 attempts to heal did not last", Holds: []group.Hold{{Predicate: rollout.HoldDeleteDisks, Message: "apply with --delete-disks"}}},
		},
		Operations: []operation.Operation{{ID: "op-7", Slot: "postgres-1", Kind: operation.Update, Actor: operation.ActorRollout, Phase: operation.Booting, Reason: "waits for the new boot", Times: operation.Times{Created: noon.Add(-50 * time.Second)}}},
		Requests:   []client.Asked{{ID: "restart-1f", Kind: "restart", Slot: "web-1", Reason: "it leaks", At: noon.Add(-time.Minute)}},
		Overrides:  []client.Override{{Kind: client.OverridePause, Name: "web", Reason: "we look into web-3", By: "ann", At: noon.Add(-50 * time.Hour)}},
		Admissions: []policy.AdmissionStatus{
			{Slot: "postgres-0", State: policy.StateAdmitted, ExpiresAt: noon.Add(20 * time.Minute), TCBStatus: "OutOfDate", TCBEnds: noon.AddDate(0, 0, 12)},
			{Slot: "web-3", State: policy.StateDenied, Code: "REVISION_NOT_ALLOWED", Why: "compose hash 00ab is not allowed", ExpiresAt: noon.Add(50 * time.Minute)},
		},
		TCB:    policy.TCBOverview{Collateral: []policy.CollateralWatermark{{FMSPC: "00806f050000", TCBUntil: noon.AddDate(0, 0, 4)}}},
		Unread: []string{"list exceptions for machines: Permission denied"},
	}
	for i := range 14 {
		slot := fmt.Sprintf("cache-%d", i)
		f.Slots = append(f.Slots, group.InstanceStatus{Group: "cache", Slot: slot, State: group.SlotUnavailable, Since: at(time.Hour), Reason: "its agent is silent"})
	}
	return f
}

func TestStatusPictures(t *testing.T) {
	calm := overview.Facts{Now: noon, Cluster: "demo", Version: "v1.2.0", Backup: at(3 * time.Hour),
		Coordinators: []overview.Coordinator{{Name: "coordinator-0", Answered: true, Leader: "coordinator-0", Term: 1, Version: "v1.2.0"}},
		Groups:       []overview.Group{{Name: "web", Replicas: 1, Available: 1, Updated: 1, Target: "0123456789abcdef", RolloutState: "COMPLETE", Message: "1 of 1 slots available"}}}
	golden(t, "status", render.Overview(render.Style{}, overview.Assess(troubled())))
	golden(t, "status_calm", render.Overview(render.Style{}, overview.Assess(calm)))
	golden(t, "status_silent", render.Overview(render.Style{}, overview.Assess(overview.Facts{Now: noon, Cluster: "demo", Version: "v1.2.0",
		Coordinators: []overview.Coordinator{{Name: "coordinator", Problem: "get cluster demo: connection refused"}}})))
	text, err := json.MarshalIndent(overview.Assess(troubled()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status_json", string(text)+"\n")
}

func TestStatusAsksEverything(t *testing.T) {
	b := provenBench(t)
	b.Set("worker", midRollout)
	code, out := b.run("status")
	for _, want := range []string{"coordinator-0  -    answers", "worker  2/3", "worker-1  Booting", "UPDATE  BOOTING", "verdict", "leader       coordinator-1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code != ExitOK && code != ExitNeedsPerson {
		t.Errorf("exit %d", code)
	}

	b.Fail("ListOverrides", status.Error(codes.PermissionDenied, "no right"))
	if code, out = b.run("status"); code != ExitNeedsPerson || !strings.Contains(out, "no answer: list overrides: no right") {
		t.Errorf("a part without an answer: exit %d\n%s", code, out)
	}
	b.Set("worker", func(g *clienttest.Group) { g.Status.RolloutState = "FAILED" })
	if code, out = b.run("status", "-o", "json"); code != ExitNeedsPerson || !strings.Contains(out, `"needs_person": true`) || !strings.Contains(out, `"severity": "page"`) {
		t.Errorf("a failed rollout: exit %d\n%s", code, out)
	}
	b.Fail("GetCluster", status.Error(codes.Unavailable, "no leader"))
	if code, out = b.run("status"); code != ExitError || !strings.Contains(out, "silent") || !strings.Contains(out, "page") {
		t.Errorf("no answer: exit %d\n%s", code, out)
	}
	if code, out = b.run("status", "--every", "1ms"); code != ExitUsage {
		t.Errorf("--every 1ms: exit %d\n%s", code, out)
	}
}
