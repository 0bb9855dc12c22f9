package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/attest/attestsim"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/policy"
)

const (
	runs     = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
	waits    = "ffeeddccbbaa99887766554433221100"
	instance = "cafe001122334455667788990011223344556677"
)

// shutOut is a group with one admitted Slot, one revoked Slot and one empty Slot.
func shutOut() clienttest.Admission {
	ok := policy.AdmissionStatus{
		Group: "worker", Slot: "worker-0", State: policy.StateAdmitted, BootID: "feed0011223344", InstanceID: "beef0011223344", Revision: runs, Number: 6, Generation: 3,
		AdmittedAt: noon.Add(-26 * time.Hour), AttestedAt: noon.Add(-2 * time.Hour), ReattestBy: noon.Add(22 * time.Hour), ExpiresAt: noon.Add(14 * time.Minute),
		TCBStatus: "UpToDate", Simulated: true, Last: &policy.DecisionEntry{Number: 4, At: noon.Add(-2 * time.Hour), What: policy.DecidedAdmit},
	}
	denied := ok
	denied.Slot, denied.State, denied.Code, denied.Why = "worker-1", policy.StateDenied, policy.CodePeerRevoked, "the instance is revoked: disk image leaked"
	denied.BootID, denied.InstanceID, denied.TCBStatus = "dead0011223344", instance, "not evaluated"
	denied.Last = &policy.DecisionEntry{Number: 9, At: noon.Add(-30 * time.Second), What: policy.DecidedRefuse, Code: policy.CodePeerRevoked, Times: 5}
	denied.Machine, denied.MachineBefore, denied.MachineSince = strings.Repeat("5eed0011", 8), strings.Repeat("01d00011", 8), noon.Add(-26*time.Hour)
	denied.SharesMachine = []string{"worker-0"}
	none := policy.AdmissionStatus{Group: "worker", Slot: "worker-2", State: policy.StateNone, Code: policy.CodeRevisionNotApproved, Why: "revision ffeeddcc is not approved"}
	allowed := policy.AllowedRevision{Revision: runs, ComposeHash: strings.Repeat("0a", 32), OSImage: "dstack-0.5.9", Number: 6, Approved: true}
	held := policy.AllowedRevision{Revision: waits, ComposeHash: strings.Repeat("0b", 32), OSImage: "dstack-0.5.9", Number: 7}
	approval := policy.Approval{Revision: runs, Group: "worker", Note: "CHG-1234", By: "cadre-operator (1f0a)", At: noon.Add(-48 * time.Hour)}
	revoked := policy.Revocation{Kind: policy.RevokedInstance, ID: instance, Reason: "disk image leaked", By: "cadre-operator (1f0a)", At: noon.Add(-40 * time.Second)}
	return clienttest.Admission{
		Statuses: []policy.AdmissionStatus{ok, denied, none},
		Explanations: map[string]policy.Explanation{"worker-1": {
			AdmissionStatus: denied, Checks: policy.Checks(policy.CodePeerRevoked, "the instance is revoked", map[policy.CheckName]string{policy.CheckQuote: "SIMULATED root"}),
			ChecksBootID: "dead0011223344", ChecksAt: noon.Add(-30 * time.Second),
			Now: []policy.Finding{{Name: "root of trust", Found: "SIMULATED"}, {Name: "key provider", Found: "kms"},
				{Name: "revocation of the instance or key provider", Code: policy.CodePeerRevoked, Message: denied.Why}},
			Allowed: []policy.AllowedNow{{AllowedRevision: allowed, Own: 6, Approval: &approval},
				{AllowedRevision: held, Own: 7, Code: policy.CodeRevisionNotApproved, Message: "revision ffeeddcc is not approved"}},
			BoundInstance: instance, PolicyEpoch: 12, RequireApproval: true,
			Floor:     policy.AcceptedFloor{Number: 5, Reason: "CVE-2026-1", By: "cadre-operator (1f0a)"},
			Approvals: []policy.Approval{approval}, Revocations: []policy.Revocation{revoked},
			Decisions: []policy.DecisionEntry{{Number: 9, At: noon.Add(-30 * time.Second), What: policy.DecidedRefuse, Times: 5, BootID: "dead0011223344", Revision: runs, By: "coordinator-1", Code: policy.CodePeerRevoked, Message: "the instance is revoked"},
				{Number: 8, At: noon.Add(-26 * time.Hour), What: policy.DecidedAdmit, BootID: "dead0011223344", Revision: runs, By: "coordinator-0"}},
			Refusal: &policy.Refusal{BootID: "dead0011223344", Code: policy.CodePeerRevoked, Message: "the instance is revoked", At: noon.Add(-30 * time.Second)},
			Next:    []string{"if the instance is sound after all: `cadre admission unrevoke instance " + instance + "`"},
		}},
		CutOff: []string{"worker-1"},
	}
}

// TestATT04_TheListSaysWhenAMachineIsRefused: in days, of each member whose machine is only tolerated.
func TestATT04_TheListSaysWhenAMachineIsRefused(t *testing.T) {
	b := newBench(t)
	a := shutOut()
	a.Statuses[0].TCBStatus, a.Statuses[0].TCBEnds = "OutOfDate", noon.Add(60*24*time.Hour+time.Hour)
	a.Statuses[1].TCBStatus, a.Statuses[1].TCBEnds = "OutOfDate", noon.Add(-time.Hour)
	b.SetAdmission(a)
	_, out := b.run("admission", "list")
	if !strings.Contains(out, "OutOfDate, ends in 60 days") || strings.Count(out, "ends in") != 1 {
		t.Errorf("output:\n%s", out)
	}
}

func TestATT32_AdmissionPictures(t *testing.T) {
	b := newBench(t)
	b.SetAdmission(shutOut())
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"admission_list":                  {ExitOK, []string{"admission", "list"}},
		"admission_explain":               {ExitOK, []string{"admission", "explain", "worker-1"}},
		"admission_help":                  {ExitOK, []string{"admission", "--help"}},
		"admission_revoke_help":           {ExitOK, []string{"admission", "revoke", "--help"}},
		"admission_revoke_unsure":         {ExitUsage, []string{"admission", "revoke", "instance", "worker-1", "--reason", "leak"}},
		"admission_revoke":                {ExitOK, []string{"admission", "revoke", "instance", "worker-1", "--reason", "leak", "--confirm", "worker-1"}},
		"admission_unrevoke":              {ExitOK, []string{"admission", "unrevoke", "key-provider", "04ab"}},
		"admission_clear_conflict_help":   {ExitOK, []string{"admission", "clear-conflict", "--help"}},
		"admission_clear_conflict":        {ExitOK, []string{"admission", "clear-conflict", "worker-1", "--reason", "one copy was destroyed"}},
		"admission_clear_conflict_unsure": {ExitUsage, []string{"admission", "clear-conflict", "worker-1"}},
		"admission_approve":               {ExitOK, []string{"admission", "approve", "ffeeddcc", "--note", "CHG-1234"}},
		"admission_app_compose":           {ExitOK, []string{"admission", "app-compose", "ffeeddcc"}},
		"admission_floor_unsure":          {ExitUsage, []string{"admission", "floor", "worker", "#7"}},
		"admission_floor":                 {ExitOK, []string{"admission", "floor", "worker", "#7", "--reason", "CVE-2026-1", "--confirm", "worker"}},
		"admission_floor_everybody":       {ExitOK, []string{"admission", "floor", "--all", "--before", "2026-05-01T00:00:00Z", "--confirm", "all"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := b.run(c.args...)
			if code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			golden(t, name, out)
		})
	}
	for _, text := range b.Decided() {
		if strings.Contains(text, "ffeeddcc") && text != "approve ffeeddcc  CHG-1234" {
			t.Errorf("decided %q", text)
		}
	}
}

// TestThreat_ATT_15_ThePrintedBytesHaveTheHash: the command prints the bytes with the hash, or nothing.
func TestThreat_ATT_15_ThePrintedBytesHaveTheHash(t *testing.T) {
	b := newBench(t)
	b.SetAdmission(shutOut())
	if code, out := b.run("admission", "app-compose", "ffeeddcc"); code != ExitOK || out != clienttest.Document {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := b.run("admission", "app-compose", "ffeeddcc", "-o", "json"); code != ExitOK || !strings.Contains(out, `"compose_hash"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := b.run("admission", "app-compose", "edited"); code == ExitOK || strings.Contains(out, "{}") || !strings.Contains(out, "hashes to") {
		t.Errorf("an answer whose text has another hash: exit %d: %s", code, out)
	}
}

// TestOPS06_NothingIsCutOffUnconfirmed: the wrong word confirms nothing.
func TestOPS06_NothingIsCutOffUnconfirmed(t *testing.T) {
	b := newBench(t)
	b.SetAdmission(shutOut())
	for _, args := range [][]string{
		{"admission", "revoke", "instance", "worker-1", "--reason", "x", "--confirm", "worker-2"},
		{"admission", "revoke", "instance", "worker-1", "--confirm", "worker-1"},
		{"admission", "revoke", "slot", "worker-1", "--reason", "x", "--confirm", "worker-1"},
		{"admission", "floor", "worker", "#7", "--confirm", "#7"},
		{"admission", "floor", "worker", "--confirm", "worker"},
		{"admission", "floor", "--all", "--confirm", "all"},
		{"admission", "floor", "--all", "--before", "yesterday", "--confirm", "all"},
		{"admission", "floor", "worker", "#7", "--before", "2026-05-01T00:00:00Z", "--confirm", "worker"},
	} {
		if code, out := b.run(args...); code != ExitUsage {
			t.Errorf("%v: exit %d\n%s", args, code, out)
		}
	}
	if got := b.Decided(); len(got) != 0 {
		t.Errorf("decided %v", got)
	}
	b.Fail("ApproveRevision", status.Error(codes.FailedPrecondition, "IMAGE_NOT_PINNED: line 3: the image \"x\" is not pinned"))
	if code, out := b.run("admission", "approve", "ffeeddcc"); code != ExitRefused || !strings.Contains(out, "IMAGE_NOT_PINNED") {
		t.Errorf("refused approval: exit %d\n%s", code, out)
	}
}

// TestSimulatedStandsEverywhere: each command that shows the state of a cluster under another root
// says so, as text and as JSON; a cluster under Intel's root does not.
func TestSimulatedStandsEverywhere(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	b.SetAdmission(shutOut())
	b.SetOverlay(clienttest.Overlay{Links: nil})
	commands := [][]string{
		{"cluster", "status"}, {"group", "list"}, {"group", "describe", "worker"}, {"rollout", "status", "worker"}, {"rollout", "plan", "worker"},
		{"rollout", "history", "worker"}, {"instance", "list"}, {"instance", "describe", "worker-1"},
		{"admission", "list"}, {"admission", "explain", "worker-1"},
	}
	for _, args := range commands {
		code, out := b.run(args...)
		if code != ExitOK || !strings.HasPrefix(out, "SIMULATED") {
			t.Errorf("%v: exit %d\n%s", args, code, out)
		}
		code, out = b.run(append(args, "-o", "json")...)
		if code != ExitOK || !everyObjectSimulated(t, out) {
			t.Errorf("%v as JSON: exit %d\n%s", args, code, out)
		}
	}
	c := b.Context()
	c.Trust.AllowSimulated = false
	if err := c.Save(b.context); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"group", "list"}, {"instance", "list"}, {"rollout", "status", "worker"}} {
		if _, out := b.run(args...); strings.Contains(strings.ToLower(out), "simulated") {
			t.Errorf("%v: %s", args, out)
		}
		if _, out := b.run(append(args, "-o", "json")...); strings.Contains(out, `"simulated": true`) {
			t.Errorf("%v: %s", args, out)
		}
	}
}

func everyObjectSimulated(t *testing.T, text string) bool {
	t.Helper()
	var list []map[string]any
	if strings.HasPrefix(text, "{") {
		text = "[" + text + "]"
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, one := range list {
		if one["simulated"] != true {
			return false
		}
	}
	return len(list) > 0
}

func TestAdmissionCompletion(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	for want, args := range map[string][]string{
		"key-provider\n":        {"__complete", "admission", "revoke", ""},
		"worker-0\nworker-1\n":  {"__complete", "admission", "revoke", "instance", ""},
		"worker-1\n":            {"__complete", "admission", "explain", ""},
		"ffeeddcc\tof worker\n": {"__complete", "admission", "approve", ""},
		"worker\n":              {"__complete", "admission", "floor", ""},
	} {
		if code, out := b.run(args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
}

// TestClusterStatusSaysInHowManyDaysAMachineEnds: a line for each member whose machine is tolerated,
// refused or foretold to be out of date, none for the others.
func TestClusterStatusSaysInHowManyDaysAMachineEnds(t *testing.T) {
	b := provenBench(t)
	day := 24 * time.Hour
	b.SetAdmission(clienttest.Admission{Statuses: []policy.AdmissionStatus{
		{Group: "pg", Slot: "pg-0", BootID: "b", TCBStatus: "OutOfDate", TCBReplacedAt: noon.Add(-365 * day), TCBEnds: noon.Add(60*day + time.Hour)},
		{Group: "pg", Slot: "pg-1", BootID: "b", TCBStatus: "OutOfDate", TCBReplacedAt: noon.Add(-500 * day)},
		{Group: "pg", Slot: "pg-2", BootID: "b", TCBStatus: "UpToDate"},
		{Group: "pg", Slot: "pg-3", BootID: "b", TCBStatus: "UpToDate", TCBOutOfDateSoon: true, TCBOutOfDateAt: noon.Add(90 * day)},
		{Group: "pg", Slot: "pg-4", BootID: "b", TCBStatus: "UpToDate", TCBOutOfDateSoon: true},
		{Group: "pg", Slot: "pg-5"},
	}})
	code, out := b.run("cluster", "status")
	want := "pg-0: ends in 60 days: the machine is OutOfDate, its level is not the newest since 2025-05-04, tolerated until 2026-07-03\n" +
		"pg-1: not admitted any more: the machine is OutOfDate, its level is not the newest since 2024-12-20, and nothing tolerates it\n" +
		"pg-3: will be out of date on about 2026-08-02: Intel's early set says so already\n" +
		"pg-4: will be out of date: Intel's early set says so already; its signed dates do not say when\n"
	if code != ExitOK || !strings.HasSuffix(out, want) || strings.Contains(out, "pg-2") || strings.Contains(out, "pg-5") {
		t.Errorf("exit %d\n--- got\n%s--- want\n%s", code, out, want)
	}
	if code, out := b.run("cluster", "status", "-o", "json"); code != ExitOK || !strings.Contains(out, `"tcb_out_of_date_at": "2026-08-02T12:00:00Z"`) {
		t.Errorf("json: %d %s", code, out)
	}
	if code, out := b.run("admission", "list"); code != ExitOK || !strings.Contains(out, "UpToDate, until about 2026-08-02") || !strings.Contains(out, "OutOfDate, ends in 60 days") {
		t.Errorf("list: %d %s", code, out)
	}
}

// TestExceptionsForMachinesAreGrantedListedAndRevoked: the requests and output of the command line.
func TestExceptionsForMachinesAreGrantedListedAndRevoked(t *testing.T) {
	b := newBench(t)
	ledger := policy.TCBLedger{}.Append(policy.TCBEntry{At: noon, What: policy.TCBGranted, ID: "tcb-1", Text: "OutOfDate", By: "ann", Leader: "coordinator-0"})
	b.SetAdmission(clienttest.Admission{TCB: policy.TCBOverview{
		Limits: policy.TCBLimits{MaxDays: 7, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*"}},
		Exceptions: []policy.TCBState{
			{TCBGrant: policy.TCBGrant{ID: "tcb-1", Status: "OutOfDate", Advisories: []string{"INTEL-SA-01397"}, Until: noon.Add(48 * time.Hour), Reason: "Friday", By: "ann"}},
			{TCBGrant: policy.TCBGrant{ID: "tcb-2", Status: "Revoked", Until: noon.Add(time.Hour), By: "ann"}, Problem: "status: not allowed"},
		},
		Collateral: []policy.CollateralWatermark{{FMSPC: "b0c06f000000", TCBEvaluation: 20, QEEvaluation: 20, Permit: policy.CollateralPermit{TCBEvaluation: 19, QEEvaluation: 19, Until: noon.Add(time.Hour)}}},
		Entries:    ledger.Entries, ChainProblem: "AUDIT_CHAIN_BROKEN: entry 3",
	}})
	code, out := b.run("admission", "tcb", "list")
	for _, want := range []string{"OutOfDate, for at most 7 days, advisories INTEL-SA-*", "in force", "not in force: status: not allowed", "from 19 and 19 on", "AUDIT_CHAIN_BROKEN"} {
		if code != ExitOK || !strings.Contains(out, want) {
			t.Errorf("list: exit %d, no %q in\n%s", code, want, out)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"grant", "OutOfDate", "--advisory", "INTEL-SA-01397", "--for", "48h", "--reason", "Friday"}, ExitOK, "exception tcb-1 is granted until 2026-05-06T12:00:00Z"},
		{[]string{"grant", "OutOfDate", "--for", "48h"}, ExitUsage, "--reason is missing"},
		{[]string{"grant", "OutOfDate", "--reason", "r"}, ExitUsage, "--for is missing"},
		{[]string{"revoke", "tcb-1"}, ExitOK, "exception tcb-1 is taken back"},
		{[]string{"revoke", "tcb-1"}, ExitOK, "nothing is changed"},
		{[]string{"lower-collateral", "b0c06f000000", "--evaluation", "19", "--reason", "restored"}, ExitOK, "evaluation 19 of family b0c06f000000 is accepted within moments"},
		{[]string{"lower-collateral", "b0c06f000000", "--reason", "restored"}, ExitUsage, "--evaluation is missing"},
	} {
		if code, out := b.run(append([]string{"admission", "tcb"}, c.args...)...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, out)
		}
	}
	if got := strings.Join(b.Decided(), "; "); got != "tolerate OutOfDate INTEL-SA-01397  48h0m0s Friday; tolerate no more tcb-1; lower b0c06f000000 19 restored" {
		t.Errorf("sent %q", got)
	}
}

// TestClusterStatusJudgesTheMachineOfACoordinator: by evidence that the coordinator makes for this
// command, and by the context's trust.
func TestClusterStatusJudgesTheMachineOfACoordinator(t *testing.T) {
	b := provenBench(t)
	c, err := client.LoadContext(b.context)
	if err != nil {
		t.Fatal(err)
	}
	c.Trust.TCB.GraceDays = 90
	if err := c.Save(b.context); err != nil {
		t.Fatal(err)
	}
	status := func() (int, string) {
		var buf bytes.Buffer
		app := &App{Out: &buf, Err: &buf, Version: "test", Dial: client.Options{CallTimeout: 5 * time.Second}}
		return app.Run(t.Context(), []string{"cluster", "status"}), buf.String()
	}
	day := 24 * time.Hour
	if code, out := status(); code != ExitOK || strings.Contains(out, "coordinator-0: ") {
		t.Errorf("on an up-to-date machine: exit %d\n%s", code, out)
	}
	b.evidence.Posture = attestsim.Posture{Evaluation: 18, Replaced: time.Now().Add(-30*day + time.Hour)}
	if code, out := status(); code != ExitOK || !strings.Contains(out, "coordinator-0: ends in 60 days: the machine is OutOfDate") {
		t.Errorf("within the grace: exit %d\n%s", code, out)
	}
	b.evidence.Posture.Replaced = time.Now().Add(-91 * day)
	if code, out := status(); code != ExitOK || !strings.Contains(out, "problem: the coordinator at the gateway: ") || !strings.Contains(out, "TCB_OUT_OF_DATE") {
		t.Errorf("after the grace: exit %d\n%s", code, out)
	}
}
