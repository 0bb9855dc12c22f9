package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func (e exchange) facts(a *Admission) Facts {
	return Facts{Group: "db", Slot: "db-1", Admission: a, Policy: e.sp, Images: e.ip, Gate: GroupPolicy{
		Group: "db", Revisions: map[string]Numbered{"old": {Number: 1}, "new": {Number: 2}}, Last: 2,
		Approvals: map[string]Approval{"new": {Revision: "new", By: "ann"}},
	}}
}

func TestStandTellsStateAndWhy(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*exchange, *Admission)
		later time.Duration
		state State
		code  Code
	}{
		"admitted":   {func(*exchange, *Admission) {}, time.Minute, StateAdmitted, ""},
		"re-attest":  {func(e *exchange, _ *Admission) { e.sp.Epoch++ }, time.Minute, StateReattest, CodeReattestRequired},
		"revoked":    {func(e *exchange, a *Admission) { revoking(RevokedInstance, a.InstanceID)(e) }, time.Minute, StateDenied, CodePeerRevoked},
		"expired":    {func(*exchange, *Admission) {}, 2 * time.Hour, StateExpired, CodeSVIDExpired},
		"nobody":     {func(_ *exchange, a *Admission) { *a = Admission{} }, 0, StateNone, ""},
		"unapproved": {func(e *exchange, _ *Admission) { e.sp.RequireApproval = true }, 0, StateDenied, CodeRevisionNotApproved},
		"held": {func(_ *exchange, a *Admission) {
			a.Contest = Contest{Changes: 2}.Met("rival", noon).Changed(false, noon)
		}, time.Minute, StateAdmitted, CodeInstanceConflict},
		"crashes":    {func(_ *exchange, a *Admission) { a.Contest = Contest{Changes: 9} }, time.Minute, StateAdmitted, ""},
		"old record": {func(_ *exchange, a *Admission) { a.Claims, a.AttestedAt = Claims{}, time.Time{} }, 0, StateReattest, CodeReattestRequired},
	} {
		e := admissible()
		a := e.admitted()
		c.edit(&e, &a)
		s := Stand(e.facts(&a), noon.Add(c.later))
		if s.State != c.state || s.Code != c.code || (s.Why == "") != (c.code == "") {
			t.Errorf("%s: %+v", name, s)
		}
		if s.BootID != "" && (s.Number != 2 || s.TCBStatus == "") {
			t.Errorf("%s: #%d, tcb %q", name, s.Number, s.TCBStatus)
		}
	}
}

func TestExplainSaysWhatIsAllowedAndWhatToDo(t *testing.T) {
	e := admissible()
	e.sp.RequireApproval = true
	e.sp.Allowed[1].Approved = true
	a := e.admitted()
	x := Explain(e.facts(&a), noon)
	if len(x.Allowed) != 2 || x.Allowed[0].Code != CodeRevisionNotApproved || x.Allowed[1].Code != "" || x.Allowed[1].Approval.By != "ann" {
		t.Errorf("allowed %+v", x.Allowed)
	}
	if len(x.Next) != 1 || !strings.Contains(x.Next[0], "cadre admission approve old") {
		t.Errorf("next %v", x.Next)
	}
	for code, want := range map[Code]string{
		CodePeerRevoked: "unrevoke instance " + e.sp.InstanceID, CodeRevisionBelowFloor: "newer revision", CodeRevisionNotAllowed: "rollout status db",
		CodeTCBOutOfDate: "host updated", CodeInstanceConflict: "two boots", CodeQuoteInvalid: "docs/admission.md",
	} {
		f := e.facts(nil)
		f.Refusal = &Refusal{Code: code, Message: "m", At: noon}
		if x := Explain(f, noon); !strings.Contains(strings.Join(x.Next, " "), want) {
			t.Errorf("%s: %v", code, x.Next)
		}
	}
	f := e.facts(nil)
	f.Decisions = Decisions{}.Append("db-1", DecisionEntry{What: DecidedRefuse, Code: CodeRevisionNotAllowed, At: noon})
	f.Decisions.Refused[0].Code = "" // edited afterwards
	if x := Explain(f, noon); !strings.Contains(x.ChainProblem, string(CodeAuditChainBroken)) || len(x.Next) == 0 {
		t.Errorf("a broken chain: %q, %v", x.ChainProblem, x.Next)
	}
	// What is told carries no secret and comes back from JSON.
	text, err := json.Marshal(Explain(e.facts(&a), noon))
	var back Explanation
	if err != nil || json.Unmarshal(text, &back) != nil || back.Slot != "db-1" || strings.Contains(string(text), "token_accessors") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestIDN03_AHeldSlotIsExplained: why nobody else gets in, and the way out.
func TestIDN03_AHeldSlotIsExplained(t *testing.T) {
	e := admissible()
	a := e.admitted()
	a.Contest = Contest{Changes: 2}.Met("rival", noon).Changed(false, noon)
	x := Explain(e.facts(&a), noon)
	if !x.Contest.Held() || !strings.Contains(x.Why, "3 times") || !strings.Contains(x.Why, "rival") {
		t.Errorf("why %q", x.Why)
	}
	if !strings.Contains(strings.Join(x.Next, "\n"), "cadre admission release db-1") {
		t.Errorf("next %q", x.Next)
	}
}
