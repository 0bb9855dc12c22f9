package policy

import (
	"encoding/json"
	"slices"
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

func TestStatusHasTheStateAndItsReason(t *testing.T) {
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
		s := StatusOf(e.facts(&a), noon.Add(c.later))
		if s.State != c.state || s.Code != c.code || (s.Why == "") != (c.code == "") {
			t.Errorf("%s: %+v", name, s)
		}
		if s.BootID != "" && (s.Number != 2 || s.TCBStatus == "") {
			t.Errorf("%s: #%d, tcb %q", name, s.Number, s.TCBStatus)
		}
	}
}

func TestExplainNamesTheAllowedRevisionsAndTheNextCommand(t *testing.T) {
	e := admissible()
	e.sp.RequireApproval = true
	e.sp.Allowed[1].Approved = true
	a := e.admitted()
	x := Explain(e.facts(&a), noon)
	if len(x.Allowed) != 2 || x.Allowed[0].Code != CodeRevisionNotApproved || x.Allowed[1].Code != "" || x.Allowed[1].Approval.By != "ann" {
		t.Errorf("allowed %+v", x.Allowed)
	}
	if len(x.Next) != 1 || !strings.Contains(x.Next[0], "cadre admission approve old") || len(x.Now) == 0 {
		t.Errorf("next %v, findings %+v", x.Next, x.Now)
	}
	for code, want := range map[Code]string{
		CodePeerRevoked: "unrevoke instance " + e.sp.InstanceID, CodeRevisionBelowFloor: "newer revision", CodeRevisionNotAllowed: "rollout status db",
		CodeKMSPolicyMismatch: "unrevoke key-provider", CodeReattestRequired: "nothing: the agent shows new evidence",
		CodeTCBOutOfDate: "host updated", CodeInstanceConflict: "two boots", CodeQuoteInvalid: "docs/reference/reason-codes.md",
	} {
		f := e.facts(nil)
		f.Refusal = &Refusal{Code: code, Message: "m", At: noon}
		if x := Explain(f, noon); !strings.Contains(strings.Join(x.Next, " "), want) {
			t.Errorf("%s: %v", code, x.Next)
		}
	}
	f := e.facts(nil)
	f.Decisions = Decisions{}.Append("db-1", DecisionEntry{What: DecidedRefuse, Code: CodeRevisionNotAllowed, At: noon})
	const edited = "the decisions of the slot were edited"
	if x := Explain(f, noon); x.ChainProblem != "" || strings.Contains(strings.Join(x.Next, " "), edited) {
		t.Errorf("a whole chain: %q, %v", x.ChainProblem, x.Next)
	}
	f.Decisions.Refused[0].Code = "" // edited afterwards
	if x := Explain(f, noon); !strings.Contains(x.ChainProblem, string(CodeAuditChainBroken)) || !strings.Contains(strings.Join(x.Next, " "), edited) {
		t.Errorf("a broken chain: %q, %v", x.ChainProblem, x.Next)
	}
	// The explanation carries no secret and survives a round trip through JSON.
	text, err := json.Marshal(Explain(e.facts(&a), noon))
	var back Explanation
	if err != nil || json.Unmarshal(text, &back) != nil || back.Slot != "db-1" || strings.Contains(string(text), "token_accessors") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestExplainNamesTheRemedyForARefusedBoot: the earlier Boot still holds the Slot, and is not in question.
func TestExplainNamesTheRemedyForARefusedBoot(t *testing.T) {
	e := admissible()
	a := e.admitted()
	for at, want := range map[time.Time]string{a.AdmittedAt.Add(1): "host updated", a.AdmittedAt: ""} {
		f := e.facts(&a)
		f.Refusal = &Refusal{Code: CodeTCBOutOfDate, Message: "m", At: at}
		x := Explain(f, noon)
		if x.State != StateAdmitted || x.Code != "" || (len(x.Next) > 0) != (want != "") || !strings.Contains(strings.Join(x.Next, " "), want) {
			t.Errorf("refused at %s: %s %q, next %q", at, x.State, x.Code, x.Next)
		}
	}
}

// TestIDN03_AReservedSlotIsExplained: the reason why no other Boot is admitted, and the way out.
func TestIDN03_AReservedSlotIsExplained(t *testing.T) {
	e := admissible()
	a := e.admitted()
	a.Contest = Contest{Changes: 2}.Met("rival", noon).Changed(false, noon)
	x := Explain(e.facts(&a), noon)
	if !x.Contest.Reserved() || !strings.Contains(x.Why, "3 times") || !strings.Contains(x.Why, "rival") {
		t.Errorf("why %q", x.Why)
	}
	if !strings.Contains(strings.Join(x.Next, "\n"), "cadre admission clear-conflict db-1") {
		t.Errorf("next %q", x.Next)
	}
}

// TestTheNewestRefusalExplainsAnEmptySlot: the newer one of a recorded refusal and a noted refusal.
func TestTheNewestRefusalExplainsAnEmptySlot(t *testing.T) {
	refused := func(at time.Time) Decisions {
		return Decisions{}.Append("db-1", DecisionEntry{What: DecidedRefuse, Code: CodeRevisionNotAllowed, Message: "recorded", At: at})
	}
	for name, c := range map[string]struct {
		decisions Decisions
		noted     *Refusal
		want      Code
	}{
		"nothing":         {Decisions{}, nil, ""},
		"recorded":        {refused(noon), nil, CodeRevisionNotAllowed},
		"noted":           {Decisions{}, &Refusal{Code: CodeQuoteInvalid, Message: "noted", At: noon}, CodeQuoteInvalid},
		"noted after it":  {refused(noon), &Refusal{Code: CodeQuoteInvalid, Message: "noted", At: noon.Add(1)}, CodeQuoteInvalid},
		"noted before it": {refused(noon), &Refusal{Code: CodeQuoteInvalid, Message: "noted", At: noon.Add(-1)}, CodeRevisionNotAllowed},
		"noted before an admission": {Decisions{}.Append("db-1", DecisionEntry{What: DecidedAdmit, BootID: "b", At: noon.Add(1)}),
			&Refusal{Code: CodeQuoteInvalid, Message: "noted", At: noon}, CodeQuoteInvalid},
		"admitted, and gone": {Decisions{}.Append("db-1", DecisionEntry{What: DecidedAdmit, BootID: "b", At: noon}), nil, ""},
	} {
		f := admissible().facts(nil)
		f.Decisions, f.Refusal = c.decisions, c.noted
		s := StatusOf(f, noon)
		if s.Code != c.want || (s.Why == "") != (c.want == "") {
			t.Errorf("%s: %s %q", name, s.Code, s.Why)
		}
		if recorded := c.decisions.Last().Number > 0; (s.Last != nil) != recorded {
			t.Errorf("%s: last %+v", name, s.Last)
		}
	}
}

// TestWhenABootIsToAttestAgain: the status also names the root of its evidence.
func TestWhenABootIsToAttestAgain(t *testing.T) {
	e := admissible()
	a := e.admitted()
	s := StatusOf(e.facts(&a), noon)
	if !s.ReattestBy.Equal(a.AttestedAt.Add(ReattestAfter)) || !s.ExpiresAt.Equal(a.ExpiresAt) || s.Simulated || s.TCBStatus != "UpToDate" {
		t.Errorf("%+v", s)
	}
	if s := StatusOf(e.facts(&a), a.ExpiresAt); s.State != StateExpired {
		t.Errorf("at its end: %s", s.State)
	}
	for _, edit := range []func(){func() { a.Simulated = true }, func() { a.Simulated, a.Claims.Simulated = false, true }} {
		edit()
		if !StatusOf(e.facts(&a), noon).Simulated {
			t.Errorf("%+v is not told to be simulated", a)
		}
	}
	a.AttestedAt, a.ExpiresAt = time.Time{}, time.Time{}
	if s := StatusOf(e.facts(&a), noon); !s.ReattestBy.IsZero() || s.State == StateExpired {
		t.Errorf("%+v of a record without times", s)
	}
}

// TestExplainNamesTheRevisionThatIsMeant: the newest one with the very problem.
func TestExplainNamesTheRevisionThatIsMeant(t *testing.T) {
	e := admissible()
	e.sp.RequireApproval = true
	a := e.admitted()
	x := Explain(e.facts(&a), noon)
	if len(x.Next) != 1 || !strings.Contains(x.Next[0], "cadre admission approve new") {
		t.Errorf("what runs is not approved, and next is %q", x.Next)
	}
	below := admissible()
	below.sp.RequireApproval, below.sp.Floor, below.sp.Allowed[1].Number = true, 1, 1
	slices.Reverse(below.sp.Allowed)
	if x = Explain(below.facts(&a), noon); x.Code != CodeRevisionNotApproved || !strings.Contains(x.Next[0], "cadre admission approve new") {
		t.Errorf("%s: what runs is not approved, the other one is below the floor, and next is %q", x.Code, x.Next)
	}
	e.sp.Allowed[1].Approved = true
	if x = Explain(e.facts(nil), noon); !strings.Contains(strings.Join(x.Next, "\n"), "revision old waits: `cadre admission approve old`") {
		t.Errorf("the old one waits, and next is %q", x.Next)
	}
	if len(x.Now) != 0 || len(x.Approvals) != 1 || x.ChainProblem != "" {
		t.Errorf("findings %+v, approvals %+v, chain %q", x.Now, x.Approvals, x.ChainProblem)
	}
	f := e.facts(nil)
	f.Refusal = &Refusal{Code: CodeRevisionNotApproved, Message: "m", At: noon}
	if x = Explain(f, noon); len(x.Next) != 1 || !strings.Contains(x.Next[0], "cadre admission approve old") {
		t.Errorf("refused for want of approval, and next is %q", x.Next)
	}
	// The explanation lists decisions newest first.
	f.Decisions = chain(3)
	if x = Explain(f, noon); x.Decisions[0].Number != 3 || x.Decisions[2].Number != 1 {
		t.Errorf("decisions %+v", x.Decisions)
	}
	// A refused Boot without a contest of the slot gets no hint to clear a conflict.
	f.Refusal = &Refusal{Code: CodeInstanceConflict, Message: "m", At: noon.Add(time.Hour * 24 * 365 * 100)}
	if x = Explain(f, noon); strings.Contains(strings.Join(x.Next, " "), "cadre admission clear-conflict") {
		t.Errorf("next %q", x.Next)
	}
}
