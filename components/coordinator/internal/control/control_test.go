package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/admission"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func pg() group.Spec {
	return group.Spec{Name: "pg", Replicas: 1, Workload: group.Workload{Kind: group.WorkloadPatroni}}
}

// records is a View of one Slot with its Operations, oldest first.
func records(ops ...view.Rec[operation.Operation]) *view.View {
	v := &view.View{
		Term: 3, Index: 100,
		Specs:      map[string]view.Spec{"pg": {Value: pg(), Index: 10}},
		Accepted:   map[string]view.Accepted{"pg": {Value: pg(), SpecIndex: 10, Index: 11}},
		Slots:      map[string]view.Rec[group.SlotRecord]{"pg-0": {Value: group.SlotRecord{Group: "pg", Slot: "pg-0", VIP: "127.50.1.1", InstanceID: "i"}, Index: 12}},
		Admissions: map[string]view.Rec[policy.Admission]{"pg-0": {Value: policy.Admission{Group: "pg", Slot: "pg-0", BootID: "boot", InstanceID: "i"}, Index: 13}},
		Operations: map[string]view.Rec[operation.Operation]{},
	}
	for _, o := range ops {
		v.Operations[o.Value.ID] = o
	}
	return v
}

func step(id string, phase operation.Phase, created time.Time, index uint64) view.Rec[operation.Operation] {
	return view.Rec[operation.Operation]{Index: index, Value: operation.Operation{
		ID: id, Group: "pg", Slot: "pg-0", Kind: operation.Update, Phase: phase, Before: operation.Before{BootID: "boot"}, Times: operation.Times{Created: created},
		Entered: operation.PhaseTimes{operation.Draining: created},
	}}
}

func desired(t *testing.T, v *view.View, boot string) *controlv1.Desired {
	t.Helper()
	out, err := Desired(v, pg(), "pg-0", boot)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestVersionDoesNotFallAfterRemovals(t *testing.T) {
	t0 := time.Unix(1000, 0)
	old, newest := step("old", operation.Done, t0, 40), step("new", operation.Done, t0.Add(time.Hour), 60)
	before := desired(t, records(old, newest), "boot").GetVersion()
	if before != 60 {
		t.Fatalf("version %d, want the newest record's", before)
	}
	if got := desired(t, records(newest), "boot").GetVersion(); got < before {
		t.Errorf("version %d after an operation was pruned, was %d", got, before)
	}
	with, without := records(), records()
	delete(without.Specs, "pg")
	if a, b := desired(t, with, "boot").GetVersion(), desired(t, without, "boot").GetVersion(); b < a {
		t.Errorf("version %d after the spec was removed, was %d", b, a)
	}
}

// A View reads the kinds of records one by one. The View may have the record with the highest index
// before an earlier record. An agent that got the first state is woken again.
func TestARecordThatAppearsLateChangesTheVersion(t *testing.T) {
	v := records(step("op", operation.Booting, time.Unix(1000, 0), 60))
	v.Term = 3
	policyAt := func(index, epoch uint64) {
		v.Policies = map[string]view.Rec[policy.SlotPolicy]{"pg-0": {Value: policy.SlotPolicy{Group: "pg", Slot: "pg-0", Epoch: epoch}, Index: index}}
	}
	policyAt(40, 4)
	first := desired(t, v, "boot")
	known := &controlv1.GetDesiredRequest{KnownTerm: 3, KnownVersion: first.GetVersion(), KnownIndexSum: first.GetIndexSum()}
	if Unchanged(v, "pg-0", known) == nil {
		t.Error("nothing changed, and the agents are woken again")
	}
	policyAt(59, 5)
	then := desired(t, v, "boot")
	if Unchanged(v, "pg-0", known) != nil || then.GetVersion() != first.GetVersion() || then.GetIndexSum() <= first.GetIndexSum() || then.GetPolicyEpoch() != 5 {
		t.Errorf("woken %v, then %v", first, then)
	}
}

func TestCTL17_OrderIsForTheBootThatItMeans(t *testing.T) {
	v := records(step("op", operation.Booting, time.Unix(1000, 0), 20))
	if o := desired(t, v, "boot").GetOperation(); o.GetVerb() != controlv1.Verb_VERB_DRAIN {
		t.Errorf("the boot that was drained is asked for %v: it would go back to service before it is gone", o.GetVerb())
	}
	if o := desired(t, v, "next").GetOperation(); o.GetVerb() != controlv1.Verb_VERB_POST_LAUNCH {
		t.Errorf("the boot that follows is asked for %v", o.GetVerb())
	}
}

// Without the last valid spec the peer maps of a new coordinator would cut the members off from
// each other.
func TestInvalidSpecKeepsPortsOpenOnACoordinatorThatJustStarted(t *testing.T) {
	v := records()
	v.Specs["pg"] = view.Spec{Index: 50, Err: context.Canceled}
	v.Slots["pg-1"] = view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: "pg", Slot: "pg-1", VIP: "127.50.1.2", InstanceID: "j"}}
	v.Admissions["pg-1"] = view.Rec[policy.Admission]{Value: policy.Admission{Group: "pg", Slot: "pg-1", BootID: "b", InstanceID: "j"}}
	var d Directory
	d.Update(v, []peering.Member{{Group: "coordinator", Slot: "coordinator-0", Coordinator: true}}, nil)
	peers, _ := d.Peers("pg", "pg-0")
	for _, p := range peers {
		if p.Slot != "pg-1" {
			continue
		}
		for _, port := range p.Offers {
			if port.Number == 5432 {
				return
			}
		}
	}
	t.Errorf("pg-0 may not reach PostgreSQL of pg-1: %+v", peers)
}

// service serves v's records from a store in memory.
func service(t *testing.T) (*Service, *reports.Reports) {
	t.Helper()
	s := storetest.NewMemory()
	for key, value := range map[string]string{
		store.AdmissionKey("pg-0"): `{"group":"pg","slot":"pg-0","boot_id":"boot","instance_id":"i","app_id":"a","revision":"r","epoch":1,"generation":1,
			"admitted_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-02T00:00:00Z","by":"coordinator-0"}`,
	} {
		if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	views := view.NewWatcher(s, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = views.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	for v, changed := views.Latest(); v == nil; v, changed = views.Latest() {
		<-changed
	}
	r := reports.New(time.Now)
	ended := func(ctx context.Context, group, slot, bootID string, _ bool) (policy.Decision, error) {
		return admission.Ended(ctx, s, group, slot, bootID)
	}
	return New(views, &Directory{}, r, ended, slog.New(slog.DiscardHandler)), r
}

func from(t *testing.T, groupName, slot, boot string) context.Context {
	t.Helper()
	return peer.NewContext(t.Context(), &peer.Peer{Addr: overlay.Addr{ID: overlay.ID{Cluster: "demo", Group: groupName, Slot: slot}, BootID: boot}})
}

func TestOnlyTheBootThatHoldsTheSlotIsHeard(t *testing.T) {
	s, heard := service(t)
	refused := func(ctx context.Context, caller string, want codes.Code) {
		_, reportErr := s.Report(ctx, &controlv1.ReportRequest{Report: &controlv1.Report{}})
		_, desiredErr := s.GetDesired(ctx, &controlv1.GetDesiredRequest{})
		_, peersErr := s.GetPeers(ctx, &controlv1.GetPeersRequest{})
		for _, err := range []error{reportErr, desiredErr, peersErr} {
			if status.Code(err) != want {
				t.Errorf("%s: %v, want %v", caller, err, want)
			}
		}
	}
	refused(t.Context(), "no session", codes.Unauthenticated)
	refused(from(t, "web", "pg-0", "boot"), "another group", codes.FailedPrecondition)
	// The slot's records may be lost, so the Boot does not learn that it has ended.
	refused(from(t, "pg", "pg-1", "boot"), "a slot of which nothing is recorded", codes.Unavailable)
	refused(from(t, "pg", "pg-0", "earlier"), "an earlier boot", codes.FailedPrecondition)
	if _, ok := heard.Of("pg-0"); ok {
		t.Error("a foreign report is stored")
	}
	if _, err := s.Report(from(t, "pg", "pg-0", "boot"), &controlv1.ReportRequest{Report: &controlv1.Report{Sequence: 1}}); err != nil {
		t.Error(err)
	}
	if got, ok := heard.Of("pg-0"); !ok || got.BootID != "boot" {
		t.Errorf("the report is not kept: %+v", got)
	}
}

// Texts of reports go into records that have bounds of their own.
func TestReportsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 20_000)
	r := &controlv1.Report{
		Member: &controlv1.MemberView{Message: long, MayDisruptReason: long},
		Checks: []*controlv1.CheckResult{{Name: "ready", Message: long}},
		Steps:  []*controlv1.StepResult{{OperationId: "op", Message: long}},
		Faults: []string{long},
	}
	if err := bound(r); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{r.GetMember().GetMessage(), r.GetMember().GetMayDisruptReason(), r.GetChecks()[0].GetMessage(), r.GetSteps()[0].GetMessage(), r.GetFaults()[0]} {
		if len(text) > maxText+3 || !utf8.ValidString(text) {
			t.Errorf("a text of %d bytes is left", len(text))
		}
	}
	for name, bad := range map[string]*controlv1.Report{
		"missing":       nil,
		"long leader":   {Member: &controlv1.MemberView{Leader: long}},
		"long voter":    {Member: &controlv1.MemberView{Voters: []string{long}}},
		"long member":   {Member: &controlv1.MemberView{MemberIds: map[string]string{"pg-0": long}}},
		"long check":    {Checks: []*controlv1.CheckResult{{Name: long}}},
		"long id":       {Steps: []*controlv1.StepResult{{OperationId: long}}},
		"many steps":    {Steps: make([]*controlv1.StepResult, maxSteps+1)},
		"many faults":   {Faults: make([]string, maxFaults+1)},
		"many backends": {Backends: make([]*controlv1.BackendState, maxBackends+1)},
		"many tags":     {Backends: []*controlv1.BackendState{{Name: "b", Tags: make([]string, reports.MaxTags+1)}}},
		"long tag":      {Backends: []*controlv1.BackendState{{Name: "b", Tags: []string{strings.Repeat("t", maxName+1)}}}},
		"many voters":   {Member: &controlv1.MemberView{Voters: make([]string, maxList+1)}},
		"many follow":   {Member: &controlv1.MemberView{Followers: make([]string, maxList+1)}},
		"long follower": {Member: &controlv1.MemberView{Followers: []string{long}}},
		"long released": {AgentVersion: long},
	} {
		if err := bound(bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestATT32_DesiredCarriesTheEpochOfThePolicy: a new epoch is a new version. The agent is woken and
// sees that its credentials have an older epoch.
func TestATT32_DesiredCarriesTheEpochOfThePolicy(t *testing.T) {
	v := records()
	v.Policies = map[string]view.Rec[policy.SlotPolicy]{"pg-0": {Value: policy.SlotPolicy{Group: "pg", Slot: "pg-0", Epoch: 4}, Index: 40}}
	before := desired(t, v, "boot")
	v.Policies["pg-0"] = view.Rec[policy.SlotPolicy]{Value: policy.SlotPolicy{Group: "pg", Slot: "pg-0", Epoch: 5}, Index: 50}
	after := desired(t, v, "boot")
	if before.GetPolicyEpoch() != 4 || after.GetPolicyEpoch() != 5 || after.GetVersion() <= before.GetVersion() {
		t.Errorf("before %v, after %v", before, after)
	}
}

// TestHK03_ABootKeepsTheHooksOfItsRevision: the agent spec of a Revision is in use only in Slots
// that were rolled to it, and thus never before its approval.
func TestHK03_ABootKeepsTheHooksOfItsRevision(t *testing.T) {
	running, wanted := pg(), pg()
	check := func(path string) []group.HealthCheck {
		return []group.HealthCheck{{Name: "ready", HTTP: &group.HTTPCheck{Port: 8008, RequestPath: path}}}
	}
	running.HealthChecks, wanted.HealthChecks = check("/old"), check("/new")
	v := records()
	slot, admission := v.Slots["pg-0"], v.Admissions["pg-0"]
	slot.Value.Assigned, admission.Value.Revision = wanted.Revision(), running.Revision()
	v.Slots["pg-0"], v.Admissions["pg-0"] = slot, admission
	paths := func() (string, error) {
		out, err := Desired(v, wanted, "pg-0", "boot")
		if err != nil {
			return "", err
		}
		var config group.AgentConfig
		if len(out.GetConfigJson()) == 0 {
			return "none", nil
		}
		if err := json.Unmarshal(out.GetConfigJson(), &config); err != nil {
			t.Fatal(err)
		}
		// Each report of the agent names the Revision of its checks.
		if of := map[string]string{"/old": running.Revision(), "/new": wanted.Revision()}[config.HealthChecks[0].HTTP.RequestPath]; config.AgentSpec != of {
			t.Errorf("it is said to be the agent spec of %.8s, and is of %.8s", config.AgentSpec, of)
		}
		return config.HealthChecks[0].HTTP.RequestPath, nil
	}
	if path, err := paths(); err != nil || path != "none" {
		t.Errorf("without the record of its revision the agent gets %s, %v", path, err)
	}
	v.Revisions = map[string]view.Rec[group.RevisionRecord]{running.Revision(): {Value: group.RevisionRecord{Digest: running.Revision(), AgentSpec: running.AgentSpec()}}}
	if path, err := paths(); err != nil || path != "/old" {
		t.Errorf("before the step: %s, %v", path, err)
	}
	version := func() uint64 {
		out, err := Desired(v, wanted, "pg-0", "boot")
		if err != nil {
			t.Fatal(err)
		}
		return out.GetVersion()
	}
	before := version()
	admission.Value.Revision, admission.Index = wanted.Revision(), 200
	v.Admissions["pg-0"] = admission
	if path, err := paths(); err != nil || path != "/new" {
		t.Errorf("after the step: %s, %v", path, err)
	}
	if after := version(); after <= before {
		t.Errorf("version %d, was %d: no agent would fetch it", after, before)
	}
}

func TestAcceptedReportsAreNoted(t *testing.T) {
	s, _ := service(t)
	var noted []uint64
	s.NoteReports(func(slot, boot string, r *controlv1.Report) {
		if slot != "pg-0" || boot != "boot" {
			t.Errorf("report of %s, boot %s", slot, boot)
		}
		noted = append(noted, r.GetSequence())
	})
	for _, sequence := range []uint64{2, 1, 3} {
		if _, err := s.Report(from(t, "pg", "pg-0", "boot"), &controlv1.ReportRequest{Report: &controlv1.Report{Sequence: sequence}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Report(from(t, "pg", "pg-0", "another"), &controlv1.ReportRequest{Report: &controlv1.Report{Sequence: 4}}); err == nil {
		t.Error("a boot that does not hold the slot reports")
	}
	for _, of := range []uint64{3, 2} {
		beat := &controlv1.Heartbeat{Sequence: 5 + of, Report: of}
		r, err := s.Report(from(t, "pg", "pg-0", "boot"), &controlv1.ReportRequest{Heartbeat: beat})
		if err != nil || r.GetReportWanted() != (of == 2) || !r.GetHeartbeats() {
			t.Errorf("heartbeat of report %d: %v, %v", of, r, err)
		}
	}
	if !slices.Equal(noted, []uint64{2, 3, 3}) {
		t.Errorf("noted %v: an old one, or one of another boot, or none", noted)
	}
}
