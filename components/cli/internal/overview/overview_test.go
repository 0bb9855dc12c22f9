package overview

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *time.Time { v := noon.Add(-d); return &v }

// calm is a cluster of which nothing needs saying.
func calm() Facts {
	f := Facts{Now: noon, Cluster: "demo", Version: "v1", CAEnds: noon.AddDate(20, 0, 0)}
	for _, name := range []string{"coordinator-0", "coordinator-1", "coordinator-2"} {
		f.Coordinators = append(f.Coordinators, Coordinator{Name: name, CVM: "running", Answered: true, Leader: "coordinator-1", Term: 7, Version: "v1"})
	}
	f.Groups = []Group{{Name: "pg", Replicas: 2, Available: 2, Updated: 2, RolloutState: string(operation.Complete), Conditions: []group.Condition{{Type: "Quorum", Status: true}, {Type: "Available", Status: true}}}}
	for _, slot := range []string{"pg-0", "pg-1"} {
		f.Slots = append(f.Slots, group.InstanceStatus{Group: "pg", Slot: slot, State: group.SlotAvailable, Health: "healthy"})
		f.Admissions = append(f.Admissions, policy.AdmissionStatus{Group: "pg", Slot: slot, State: policy.StateAdmitted, ExpiresAt: noon.Add(50 * time.Minute), TCBStatus: "UpToDate"})
	}
	return f
}

func TestAssess(t *testing.T) {
	away := func(state group.SlotState, d time.Duration) func(*Facts) {
		return func(f *Facts) {
			f.Slots[1].State, f.Slots[1].Since, f.Slots[1].Reason = state, at(d), "why"
			f.Groups[0].Available = 1
		}
	}
	condition := func(kind string, status bool) func(*Facts) {
		return func(f *Facts) {
			f.Groups[0].Conditions = []group.Condition{{Type: kind, Status: status, Message: "because"}}
		}
	}
	hold := func(name string) func(*Facts) {
		return func(f *Facts) { f.Slots[1].Holds = []group.Hold{{Predicate: name, Message: "do this"}} }
	}
	admission := func(change func(*policy.AdmissionStatus)) func(*Facts) {
		return func(f *Facts) { change(&f.Admissions[1]) }
	}
	const nothing = ""
	for name, c := range map[string]struct {
		change func(*Facts)
		// want is "severity object: part of the text"; nothing: no finding.
		want string
	}{
		"calm": {func(*Facts) {}, nothing},
		"one coordinator is stopped": {func(f *Facts) {
			f.Coordinators[0] = Coordinator{Name: "coordinator-0", CVM: "stopped", Problem: "stopped"}
		}, "ticket coordinator-0: it does not answer: stopped"},
		"two coordinators are silent": {func(f *Facts) { f.Coordinators[0].Answered, f.Coordinators[1].Answered = false, false }, "page demo: 1 of 3 coordinators answer"},
		"no coordinator is known":     {func(f *Facts) { f.Coordinators = nil }, "page demo: 0 of 0 coordinators answer"},
		"no right": {func(f *Facts) {
			for i := range f.Coordinators {
				f.Coordinators[i] = Coordinator{Name: f.Coordinators[i].Name, Refused: true, Problem: "no"}
			}
		}, "ticket coordinator-0: it refuses the token of the context: no"},
		"no leader": {func(f *Facts) {
			for i := range f.Coordinators {
				f.Coordinators[i].Leader = ""
			}
		}, "page demo: no coordinator leads"},
		"an old leader is still named by one": {func(f *Facts) { f.Coordinators[0].Leader, f.Coordinators[0].Term = "coordinator-0", 6 }, nothing},
		"halted":                              {func(f *Facts) { f.Halted = "records went back" }, "page demo: halted: records went back"},
		"untrusted":                           {func(f *Facts) { f.Coordinators[2].Untrusted, f.Coordinators[2].Problem = true, "another CA" }, "page coordinator-2: it does not prove itself: another CA"},
		"no proof in time":                    {func(f *Facts) { f.Coordinators[2].Problem = "timeout" }, "ticket coordinator-2: it answers, and its proof is missing"},
		"mixed versions":                      {func(f *Facts) { f.Coordinators[2].Version = "v2" }, "ticket demo: the coordinators run different versions: v1, v2"},
		"an older cadre":                      {func(f *Facts) { f.Version = "v0" }, "note demo: cadre is version v0, the coordinators run v1"},

		"below its size without a slot": {func(f *Facts) { f.Groups[0].Available, f.Groups[0].Replicas = 2, 3 }, "ticket pg: 2 of 3 slots are available"},
		"drained on request": {func(f *Facts) {
			f.Slots[1].State, f.Slots[1].Drain = group.SlotDrained, &group.Override{}
			f.Groups[0].Available = 1
		}, nothing},
		"rollout failed":          {func(f *Facts) { f.Groups[0].RolloutState = "FAILED" }, "page pg: the rollout failed"},
		"rollout rolled back":     {func(f *Facts) { f.Groups[0].RolloutState = "ROLLED_BACK" }, "ticket pg: the rollout was rolled back"},
		"being deleted":           {func(f *Facts) { f.Groups[0].Deleting = true }, "note pg: the group is being deleted"},
		"quorum lost":             {condition("Quorum", false), "page pg: Quorum is false: because"},
		"orphans":                 {condition("Orphans", true), "ticket pg: Orphans is true: because"},
		"an unknown condition":    {condition("NewerThanThisProgram", true), nothing},
		"a condition without say": {condition("Updated", false), nothing},

		"away for a moment": {away(group.SlotUnavailable, time.Minute), "note pg-1: Unavailable: why"},
		"away for long":     {away(group.SlotBooting, 20*time.Minute), "page pg-1: Booting: why, for 20 minutes"},
		"away for long in a step": {func(f *Facts) {
			away(group.SlotBooting, 20*time.Minute)(f)
			f.Operations = []operation.Operation{{ID: "o", Slot: "pg-1", Kind: operation.Update, Phase: operation.Booting, Times: operation.Times{Created: noon.Add(-20 * time.Minute)}}}
		}, "note pg-1: Booting"},
		"quarantined":          {away(group.SlotQuarantined, time.Minute), "page pg-1: Quarantined: why; healing gave it up"},
		"vanished":             {away(group.SlotVanished, 0), "page pg-1: Vanished"},
		"drain did not happen": {away(group.SlotNotDrained, 0), "ticket pg-1: NotDrained"},
		"terminating for long": {away(group.SlotTerminating, time.Hour), "note pg-1: Terminating"},

		"a hold for people":      {hold(rollout.HoldDeleteDisks), "ticket pg: the next step of pg-1 waits for you: delete_disks: do this"},
		"a stage to promote":     {hold(rollout.HoldStagePromotion), "ticket pg: the next step of pg-1 waits for you: stage_needs_promotion: do this"},
		"a heal storm":           {hold(rollout.HoldHealStorm), "page pg: the next step"},
		"a hold that ends alone": {hold(rollout.HoldMaxUnavailable), nothing},
		"a slow operation": {func(f *Facts) {
			f.Operations = []operation.Operation{{ID: "o", Slot: "pg-1", Kind: operation.Update, Phase: operation.Joining, Times: operation.Times{Created: noon.Add(-2 * time.Hour)}}}
		}, "ticket pg-1: UPDATE is JOINING and has lasted for 2 hours"},
		"a slow drain": {func(f *Facts) {
			f.Operations = []operation.Operation{{ID: "o", Slot: "pg-1", Kind: operation.Drain, Phase: operation.Drained, Times: operation.Times{Created: noon.Add(-200 * time.Hour)}}}
		}, nothing},
		"a slow call": {func(f *Facts) {
			f.Operations = []operation.Operation{{ID: "o", Slot: "pg-1", Kind: operation.Restart, Phase: operation.Acting, Times: operation.Times{Created: noon.Add(-20 * time.Minute)}, Entered: operation.PhaseTimes{operation.Acting: noon.Add(-16 * time.Minute)}}}
		}, "page pg-1: the platform call of RESTART does not end for 16 minutes"},
		"a freeze for long": {func(f *Facts) {
			f.Overrides = []client.Override{{Kind: client.OverrideFreeze, Reason: "r", At: noon.Add(-72 * time.Hour)}}
		}, "ticket demo: a freeze has lasted for 3 days: r"},
		"a pause for a bit": {func(f *Facts) {
			f.Overrides = []client.Override{{Kind: client.OverridePause, Name: "pg", At: noon.Add(-time.Hour)}}
		}, nothing},
		"a long protection": {func(f *Facts) {
			f.Overrides = []client.Override{{Kind: client.OverrideProtect, Name: "pg-0", At: noon.Add(-900 * time.Hour)}}
		}, nothing},
		"an unanswered part": {func(f *Facts) { f.Unread = []string{"list operations: no right"} }, "ticket demo: no answer: list operations: no right"},

		"denied":               {admission(func(a *policy.AdmissionStatus) { a.State, a.Code, a.Why = policy.StateDenied, "X", "y" }), "page pg-1: its credentials will not be renewed: X: y"},
		"expired":              {admission(func(a *policy.AdmissionStatus) { a.State, a.ExpiresAt = policy.StateExpired, noon.Add(-time.Minute) }), "page pg-1: its credentials ended on 2026-05-04"},
		"not renewed":          {admission(func(a *policy.AdmissionStatus) { a.ExpiresAt = noon.Add(10 * time.Minute) }), "page pg-1: its credentials are not renewed, and end in 10 minutes"},
		"to attest again":      {admission(func(a *policy.AdmissionStatus) { a.State = policy.StateReattest }), "note pg-1: it must show new evidence"},
		"tolerated for weeks":  {admission(func(a *policy.AdmissionStatus) { a.TCBStatus, a.TCBEnds = "OutOfDate", noon.AddDate(0, 0, 14) }), "ticket pg-1: its machine is OutOfDate, tolerated until 2026-05-18"},
		"tolerated for months": {admission(func(a *policy.AdmissionStatus) { a.TCBStatus, a.TCBEnds = "OutOfDate", noon.AddDate(0, 3, 0) }), "note pg-1"},
		"tolerance ended":      {admission(func(a *policy.AdmissionStatus) { a.TCBStatus, a.TCBEnds = "OutOfDate", noon.AddDate(0, 0, -1) }), "page pg-1: its machine is OutOfDate, and the tolerance ended"},
		"soon out of date": {func(f *Facts) {
			f.Machines = []policy.AdmissionStatus{{Slot: "coordinator-0", State: policy.StateAdmitted, TCBStatus: "UpToDate", TCBOutOfDateSoon: true, TCBOutOfDateAt: noon.AddDate(0, 1, 0)}}
		}, "ticket coordinator-0: Intel will call its machine out of date"},
		"collateral ends": {func(f *Facts) {
			f.TCB.Collateral = []policy.CollateralWatermark{{FMSPC: "00a0", TCBUntil: noon.AddDate(0, 0, 3), QEUntil: noon.AddDate(0, 0, 20)}}
		}, "ticket 00a0: the collateral of this family"},
		"fresh collateral": {func(f *Facts) {
			f.TCB.Collateral = []policy.CollateralWatermark{{FMSPC: "00a0", TCBUntil: noon.AddDate(0, 0, 29)}}
		}, nothing},
		"an edited chain": {func(f *Facts) { f.TCB.ChainProblem = "entry 3" }, "page demo: the chain of decisions"},
		"an exception ends": {func(f *Facts) {
			f.TCB.Exceptions = []policy.TCBState{{TCBGrant: policy.TCBGrant{ID: "e1", Status: "OutOfDate", Until: noon.AddDate(0, 0, 2)}}}
		}, "ticket e1: the exception"},
		"the CA ends":    {func(f *Facts) { f.CAEnds = noon.AddDate(0, 1, 0) }, "ticket demo: the CA"},
		"a fresh backup": {func(f *Facts) { f.Backup = at(time.Hour) }, nothing},
		"an old backup":  {func(f *Facts) { f.Backup = at(90 * time.Hour) }, "ticket demo: the last backup is 3 days old"},
		"no backup":      {func(f *Facts) { f.Backup = &time.Time{} }, "note demo: no backup was ever taken"},
	} {
		t.Run(name, func(t *testing.T) {
			f := calm()
			c.change(&f)
			r := Assess(f)
			var said []string
			person := false
			for _, x := range r.Findings {
				said = append(said, string(x.Severity)+" "+x.Object+": "+x.Text)
				person = person || x.Severity != Note
			}
			if c.want == nothing && len(said) > 0 || c.want != nothing && !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, c.want) }) {
				t.Errorf("findings %q, want %q", said, c.want)
			}
			if r.NeedsPerson != person || c.want == nothing && person {
				t.Errorf("needs a person: %v, with %q", r.NeedsPerson, said)
			}
		})
	}
}

// A refusal is an answer: the cluster may be well.
func TestARefusedTokenIsNoOutage(t *testing.T) {
	f := calm()
	for i := range f.Coordinators {
		f.Coordinators[i] = Coordinator{Name: f.Coordinators[i].Name, Refused: true, Problem: "no"}
	}
	if r := Assess(f); slices.ContainsFunc(r.Findings, func(x Finding) bool { return x.Severity == Page }) || !r.NeedsPerson {
		t.Errorf("findings %+v", r.Findings)
	}
}

func TestReportOfACalmCluster(t *testing.T) {
	r := Assess(calm())
	if r.Leader != "coordinator-1" || r.Term != 7 || len(r.Unavailable) != 0 || r.LastBackup != nil {
		t.Errorf("%+v", r)
	}
	if len(r.Ends) != 2 || r.Ends[0].What != "credentials of pg-0" {
		t.Errorf("ends %v", r.Ends)
	}
	text, err := json.Marshal(Assess(Facts{}))
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("an empty report has a null: %s, %v", text, err)
	}
}

// Findings about many slots of a group become one.
func TestFindingsAboutManySlotsAreJoined(t *testing.T) {
	f := calm()
	for i := range 50 {
		slot := "web-" + string(rune('0'+i/10)) + string(rune('0'+i%10))
		if i < 10 {
			slot = "web-" + string(rune('0'+i))
		}
		f.Slots = append(f.Slots, group.InstanceStatus{Group: "web", Slot: slot, State: group.SlotUnavailable, Since: at(time.Hour), Reason: "silent"})
	}
	f.Slots[0].State, f.Slots[0].Since = group.SlotUnavailable, at(time.Hour)
	r := Assess(f)
	if len(r.Findings) != 2 || r.Findings[1].Object != "web" || !strings.HasPrefix(r.Findings[1].Text, "50 slots, such as web-0: Unavailable") || r.Findings[1].Command != "cadre instance list web" || len(r.Unavailable) != 51 {
		t.Errorf("findings %+v, %d slots", r.Findings, len(r.Unavailable))
	}
}

// Each condition of the reference has a rule, so that a new one is decided about.
func TestEachConditionHasARule(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/reference/reason-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "## Conditions\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(table, -1)
	if len(rows) < 20 {
		t.Fatalf("%d conditions were found", len(rows))
	}
	for _, row := range rows {
		if _, has := conditionRules[row[1]]; !has {
			t.Errorf("condition %s has no rule", row[1])
		}
	}
}
