package policy

import (
	"strings"
	"testing"
)

func TestATT15_ApprovalIsOfTheRevisionAsItsHash(t *testing.T) {
	hash := digits("d", 64)
	target := known(2)
	target.ComposeHash = hash
	required := Asked{Group: "db", RequireApproval: true, Target: target}
	for name, c := range map[string]struct {
		approvals []Approval
		want      Code
	}{
		"none":                {nil, CodeRevisionNotApproved},
		"the revision":        {[]Approval{{Revision: rev(2), ComposeHash: hash}}, ""},
		"of this group":       {[]Approval{{Revision: rev(2), ComposeHash: hash, Group: "db"}}, ""},
		"as other bytes":      {[]Approval{{Revision: rev(2), ComposeHash: digits("e", 64)}}, CodeRevisionNotApproved},
		"as no bytes":         {[]Approval{{Revision: rev(2)}}, CodeRevisionNotApproved},
		"as half a hash":      {[]Approval{{Revision: rev(2), ComposeHash: hash[:32]}}, CodeRevisionNotApproved},
		"in capitals":         {[]Approval{{Revision: strings.ToUpper(rev(2)), ComposeHash: strings.ToUpper(hash)}}, ""},
		"the hash alone":      {[]Approval{{Revision: hash}}, CodeRevisionNotApproved},
		"the hash as itself":  {[]Approval{{Revision: hash, ComposeHash: hash}}, CodeRevisionNotApproved},
		"of another group":    {[]Approval{{Revision: rev(2), ComposeHash: hash, Group: "web"}}, CodeRevisionNotApproved},
		"of another revision": {[]Approval{{Revision: rev(3), ComposeHash: hash}}, CodeRevisionNotApproved},
		"a prefix":            {[]Approval{{Revision: rev(2)[:31], ComposeHash: hash}}, CodeRevisionNotApproved},
		"of nothing":          {[]Approval{{}}, CodeRevisionNotApproved},
	} {
		asked := required
		asked.Approvals = c.approvals
		gp, _ := GroupPolicy{}.Fold(asked, noon)
		if d := gp.Judge(rev(2), "c2", hash); d.Code != c.want {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

func TestThreat_ATT_15_AnApprovalDoesNotCarryOverToAnotherHash(t *testing.T) {
	seen, other := digits("d", 64), digits("e", 64)
	target := known(2)
	target.ComposeHash = seen
	gp, problems := GroupPolicy{}.Fold(Asked{Group: "db", RequireApproval: true, Target: target, Approvals: []Approval{{Revision: rev(2), ComposeHash: strings.ToUpper(seen)}}}, noon)
	if d := gp.Judge(rev(2), "c2", seen); !d.Allowed || len(problems) > 0 {
		t.Errorf("the hash that was approved: %+v, %v", d, problems)
	}
	if d := gp.Judge(rev(2), "c2", ""); !d.Allowed {
		t.Errorf("the plan, before the hash is known: %+v", d)
	}
	d := gp.Judge(rev(2), "c2", other)
	if d.Code != CodeRevisionNotApproved || !strings.Contains(d.Message, other) || !strings.Contains(strings.ToLower(d.Message), seen) {
		t.Errorf("another hash: %+v", d)
	}
	sp := SlotPolicy{Allowed: []AllowedRevision{{Revision: rev(2), ComposeHash: seen}, {Revision: rev(2), ComposeHash: other}}}.Under(gp, nil)
	if !sp.Allowed[0].Approved || sp.Allowed[1].Approved {
		t.Errorf("slot: %+v", sp.Allowed)
	}
	_, problems = GroupPolicy{}.Fold(Asked{Group: "db", RequireApproval: true, Target: target, Approvals: []Approval{{Revision: rev(2)}}}, noon)
	if len(problems) != 1 || problems[0].Reason != ProblemApprovalUnbound {
		t.Errorf("an approval of no hash: %v", problems)
	}
}

// TestATT15_AnApprovalThatIsTakenBackCountsNoMore: the leader's own approval stays while approval
// is required and the Revision is known; an operator's approval counts while its record exists.
func TestATT15_AnApprovalThatIsTakenBackCountsNoMore(t *testing.T) {
	hash := digits("d", 64)
	target := known(2)
	target.ComposeHash = hash
	asked := Asked{Group: "db", RequireApproval: true, Target: target, Approvals: []Approval{{Revision: rev(2), ComposeHash: hash, By: "ops"}}}
	gp, _ := GroupPolicy{}.Fold(asked, noon)
	if d := gp.Judge(rev(2), "c2", hash); !d.Allowed {
		t.Fatalf("it was approved: %+v", d)
	}
	asked.Approvals = nil
	if gp, _ = gp.Fold(asked, noon); gp.Judge(rev(2), "c2", hash).Code != CodeRevisionNotApproved {
		t.Errorf("the approval was taken back, and counts on: %+v", gp.Approvals)
	}

	ran := known(1)
	ran.ComposeHash = hash
	own := history(GroupPolicy{}, Asked{Stable: rev(1)}, ran)
	own = history(own, Asked{Stable: rev(1), RequireApproval: true}, ran)
	if len(own.Approvals) != 1 {
		t.Fatalf("what ran counts as approved: %+v", own.Approvals)
	}
	if gone := history(own, Asked{RequireApproval: true}, known(3)); len(gone.Approvals) != 0 {
		t.Errorf("nothing names the revision any more, and its approval is kept: %+v", gone.Approvals)
	}
	if free := history(own, Asked{}, ran); len(free.Approvals) != 0 {
		t.Errorf("no approval is required any more, and one is kept: %+v", free.Approvals)
	}
}

func TestATT15_RevisionsThatRanBeforeApprovalCount(t *testing.T) {
	hash := digits("d", 64)
	ran := known(1)
	ran.ComposeHash = hash
	gp := history(GroupPolicy{}, Asked{Stable: rev(1)}, ran)
	other := known(5)
	other.ComposeHash = digits("e", 64)
	gp = history(gp, Asked{Stable: rev(1), RequireApproval: true, Recorded: []Known{other, ran}}, ran)
	if !gp.Judge(rev(1), "c1", hash).Allowed {
		t.Errorf("the stable revision: %+v", gp)
	}
	// An approval that says too little takes nothing away.
	beside, _ := gp.Fold(Asked{Stable: rev(1), RequireApproval: true, Target: ran, Approvals: []Approval{{Revision: rev(1)}}}, noon)
	if !beside.Judge(rev(1), "c1", hash).Allowed {
		t.Errorf("with an approval without a hash beside it: %+v", beside)
	}
	gp = history(gp, Asked{Stable: rev(1), RequireApproval: true, Recorded: []Known{ran}}, known(2))
	if gp.Judge(rev(2), "c2", "").Code != CodeRevisionNotApproved || !gp.Judge(rev(1), "c1", hash).Allowed || gp.Judge(rev(1), "c1", digits("e", 64)).Allowed {
		t.Errorf("the next one: %+v", gp)
	}
	for d, want := range map[Decision]string{
		gp.Judge(rev(2), "c2", ""):              "is not approved",
		gp.Judge(rev(1), "c1", digits("e", 64)): "was approved as compose hash \"" + hash + "\", and would be measured as \"" + digits("e", 64) + "\"",
	} {
		if !strings.HasSuffix(d.Message, want) {
			t.Errorf("%q does not say: %s", d.Message, want)
		}
	}
	// A stable revision without a record has no known hash, so its approval allows nothing.
	gone := history(GroupPolicy{}, Asked{Stable: rev(1), RequireApproval: true}, known(2))
	if d := gone.Judge(rev(1), "c1", hash); d.Code != CodeRevisionNotApproved {
		t.Errorf("the stable revision without a record: %+v", d)
	}
	// A new group has nothing that ran.
	if fresh := history(GroupPolicy{}, Asked{RequireApproval: true}, known(1)); fresh.Judge(rev(1), "c1", "").Code != CodeRevisionNotApproved {
		t.Errorf("the first revision of a group: %+v", fresh)
	}
}

// TestATT15_AnotherValueOfEnvNeedsAnotherApproval: values that the Slot received before, and the template's values, need
// none.
func TestATT15_AnotherValueOfEnvNeedsAnotherApproval(t *testing.T) {
	for name, c := range map[string]struct {
		required            bool
		own, given, allowed string
		want                Code
	}{
		"no approval is required": {false, "own", "", "", ""},
		"no values of its own":    {true, "", "", "", ""},
		"values that it has":      {true, "own", "own", "", ""},
		"approved values":         {true, "own", "", "all", ""},
		"other approved values":   {true, "own", "", "earlier", CodeRevisionNotApproved},
		"no approved values":      {true, "own", "earlier", "", CodeRevisionNotApproved},
	} {
		gp := GroupPolicy{RequireApproval: c.required, Approvals: map[string]Approval{rev(1): {Revision: rev(1), OwnEnv: c.allowed}}}
		d := gp.JudgeEnv(strings.ToUpper(rev(1)), "db-1", c.own, c.given, "all")
		if d.Code != c.want || d.Allowed != (c.want == "") || !d.Allowed && !strings.Contains(d.Message, "db-1") {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

// TestATT15_ApprovalEndsWithItsNeed: without the requirement no approval is kept, the leader's
// included.
func TestATT15_ApprovalEndsWithItsNeed(t *testing.T) {
	one := known(1)
	one.ComposeHash = digits("d", 64)
	gp := history(GroupPolicy{}, Asked{RequireApproval: true, Stable: rev(1)}, one)
	a := gp.Approvals[rev(1)]
	if a.By != ApprovedByLeader || a.ComposeHash != digits("d", 64) || a.Revision != rev(1) || a.Group != "db" || a.At != noon {
		t.Errorf("approval %+v", a)
	}
	// The leader does not approve a later Revision again.
	two := known(2)
	two.ComposeHash = digits("e", 64)
	if gp = history(gp, Asked{RequireApproval: true, Stable: rev(2), Recorded: []Known{one}}, two); gp.Approved(rev(2), "") || !gp.Approved(rev(1), "") {
		t.Errorf("approvals %+v", gp.Approvals)
	}
	if gp = history(gp, Asked{Stable: rev(2), Recorded: []Known{one}}, two); gp.Approvals != nil || gp.RequireApproval {
		t.Errorf("approvals %+v, and none is required", gp.Approvals)
	}
	if gp = history(GroupPolicy{}, Asked{RequireApproval: true}, one); gp.Approvals != nil {
		t.Errorf("approvals %+v, and nothing ran", gp.Approvals)
	}
}
