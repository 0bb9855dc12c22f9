package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// rev is the nth made-up Revision.
func rev(n int) string { return fmt.Sprintf("%032x", n) }

// known is Revision n with content of its own.
func known(n int) Known { return Known{Revision: rev(n), Content: fmt.Sprintf("c%d", n)} }

// history folds targets one after the other.
func history(gp GroupPolicy, asked Asked, targets ...Known) GroupPolicy {
	asked.Group = "db"
	for _, k := range targets {
		asked.Target = k
		gp, _ = gp.Fold(asked, noon)
	}
	return gp
}

func TestATT25_NumbersAreGivenOnceByFirstUse(t *testing.T) {
	gp := history(GroupPolicy{}, Asked{}, known(1), known(2), known(1), known(3))
	for n, want := range map[int]uint64{1: 1, 2: 2, 3: 3, 4: 0} {
		if got := gp.Number(rev(n)); got != want {
			t.Errorf("revision %d is #%d, want #%d", n, got, want)
		}
	}
	// A lost record returns in the same order, from the numbers that Revisions carry.
	lost := Asked{Recorded: []Known{{Revision: rev(2), Content: "c2", Number: 2}, {Revision: rev(1), Content: "c1", Number: 1}}, FloorSeen: 2}
	again := history(GroupPolicy{}, lost, known(3))
	if again.Number(rev(1)) != 1 || again.Number(rev(2)) != 2 || again.Number(rev(3)) != 3 || again.Floor.Number != 2 {
		t.Errorf("restored %+v", again)
	}
	// Also when the target is an old one at that moment.
	back := history(GroupPolicy{}, Asked{Recorded: lost.Recorded[:1], FloorSeen: 2}, lost.Recorded[1])
	if back.Number(rev(1)) != 1 || back.Judge(rev(1), "c1", "").Code != CodeRevisionBelowFloor {
		t.Errorf("restored while going back %+v", back)
	}
}

func TestATT25_EqualMeasurementsHaveOneVerdict(t *testing.T) {
	again := Known{Revision: rev(9), Content: "c1"} // the old content with another env
	gp := history(GroupPolicy{}, Asked{}, known(1), known(2), again)
	gp = history(gp, Asked{Floor: &Floor{Number: 2}}, again)
	if d := gp.Judge(rev(9), "c1", ""); d.Code != CodeRevisionBelowFloor || !strings.Contains(d.Message, "#1") {
		t.Errorf("old content under a new name: %+v", d)
	}
	if d := gp.Judge(rev(10), "c1", ""); d.Code != CodeRevisionBelowFloor {
		t.Errorf("old content that has no number yet: %+v", d)
	}
	if d := gp.Judge(rev(2), "c2", ""); !d.Allowed {
		t.Errorf("the floor itself: %+v", d)
	}
	if d := gp.Judge(rev(11), "c11", ""); !d.Allowed {
		t.Errorf("something new: %+v", d)
	}
	// A floor at the second name of content is one at its first.
	gp = history(history(GroupPolicy{}, Asked{}, known(1), again), Asked{Floor: &Floor{Number: 2}}, again)
	if gp.Floor.Number != 1 {
		t.Errorf("floor #%d, want #1", gp.Floor.Number)
	}
}

func TestATT25_TheFloorOnlyRises(t *testing.T) {
	gp := history(GroupPolicy{}, Asked{}, known(1), known(2), known(3))
	for _, c := range []struct {
		ask     uint64
		want    uint64
		problem string
	}{
		{0, 0, ""}, {2, 2, ""}, {1, 2, ProblemFloorNotLowered}, {2, 2, ""}, {60, 2, ProblemFloorUnknown}, {3, 3, ""}, {0, 3, ""},
	} {
		var problems []Problem
		asked := Asked{Group: "db", Target: known(3), Floor: &Floor{Number: c.ask}}
		if c.ask == 0 {
			asked.Floor = nil // the key was deleted
		}
		gp, problems = gp.Fold(asked, noon)
		got := ""
		if len(problems) > 0 {
			got = problems[0].Reason
		}
		if gp.Floor.Number != c.want || got != c.problem {
			t.Errorf("asked for #%d: floor #%d, problem %q; want #%d, %q", c.ask, gp.Floor.Number, got, c.want, c.problem)
		}
	}
}

func TestATT25_AFloorOfAllGroupsGoesByWhenContentWasFirstSeen(t *testing.T) {
	old, fresh := known(1), known(2)
	old.At, fresh.At = noon.Add(-time.Hour), noon
	everywhere := &Floor{NotBefore: noon.Add(-time.Minute), Reason: "leaked key"}
	gp := history(GroupPolicy{}, Asked{Everywhere: everywhere, Recorded: []Known{old}}, fresh)
	if gp.Judge(rev(1), "c1", "").Code != CodeRevisionBelowFloor || !gp.Judge(rev(2), "c2", "").Allowed {
		t.Errorf("policy %+v", gp)
	}
	// In another group the same old content is as old.
	other := history(GroupPolicy{}, Asked{Everywhere: everywhere}, old)
	if other.Judge(rev(1), "c1", "").Code != CodeRevisionBelowFloor {
		t.Errorf("policy of a new group %+v", other)
	}
}

// TestATT25_PropertyNothingBelowAnAcceptedFloorIsEverAllowedAgain walks through random
// edits of the operators' keys.
func TestATT25_PropertyNothingBelowAnAcceptedFloorIsEverAllowedAgain(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		gp, barred := GroupPolicy{}, map[string]bool{}
		for range 40 {
			n := rng.IntN(12)
			asked := Asked{Group: "db", Target: Known{Revision: rev(n), Content: fmt.Sprintf("c%d", n/2)}}
			if rng.IntN(3) == 0 {
				asked.Floor = &Floor{Number: uint64(rng.IntN(14))}
			}
			before := gp.Floor.Number
			gp, _ = gp.Fold(asked, noon)
			if gp.Floor.Number < before {
				t.Fatalf("seed %d: the floor fell from %d to %d", seed, before, gp.Floor.Number)
			}
			for content := range 6 {
				name := fmt.Sprintf("c%d", content)
				for _, r := range []int{2 * content, 2*content + 1} {
					if gp.Number(rev(r)) == 0 {
						continue
					}
					below := gp.Judge(rev(r), name, "").Code == CodeRevisionBelowFloor
					if barred[name] && !below {
						t.Fatalf("seed %d: content %s came back as revision %d", seed, name, r)
					}
					barred[name] = barred[name] || below
				}
			}
		}
	}
}

func TestRevocationOfARevisionHoldsItsRollout(t *testing.T) {
	gp := history(GroupPolicy{}, Asked{Revoked: []Revocation{{Kind: RevokedRevision, ID: rev(2), Reason: "backdoor"}}}, known(2))
	if d := gp.Judge(rev(2), "c2", ""); d.Code != CodeRevisionNotAllowed || !strings.Contains(d.Message, "backdoor") {
		t.Errorf("%+v", d)
	}
	if gp = history(gp, Asked{}, known(2)); !gp.Judge(rev(2), "c2", "").Allowed {
		t.Errorf("after it was taken back: %+v", gp)
	}
}

func TestTheOrderIsBoundedAndSaysSo(t *testing.T) {
	gp := GroupPolicy{Group: "db", Revisions: map[string]Numbered{}, Last: maxRevisions}
	for n := range maxRevisions {
		gp.Revisions[rev(n)] = Numbered{Number: uint64(n + 1), Content: rev(n)}
	}
	gp, problems := gp.Fold(Asked{Group: "db", Target: known(maxRevisions + 1)}, noon)
	if len(problems) != 1 || problems[0].Reason != ProblemOrderFull || len(gp.Revisions) != maxRevisions {
		t.Errorf("%d revisions, problems %+v", len(gp.Revisions), problems)
	}
}

func TestATT25_AppraiseRefusesABarredRevision(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*exchange)
		want Code
	}{
		"ATT-25 below the floor":            {func(e *exchange) { e.sp.Floor, e.sp.Allowed[1].Number = 7, 6 }, CodeRevisionBelowFloor},
		"ATT-25 not numbered":               {func(e *exchange) { e.sp.Floor = 1 }, CodeRevisionBelowFloor},
		"ATT-15 not approved":               {func(e *exchange) { e.sp.RequireApproval = true }, CodeRevisionNotApproved},
		"the instance":                      {revoking(RevokedInstance, digits("b", 40)), CodePeerRevoked},
		"the instance in capitals":          {revoking(RevokedInstance, digits("B", 40)), CodePeerRevoked},
		"the revision":                      {revoking(RevokedRevision, "new"), CodeRevisionNotAllowed},
		"the compose hash":                  {revoking(RevokedRevision, digits("c", 64)), CodeRevisionNotAllowed},
		"the compose hash in another form":  {revoking(RevokedRevision, "0x"+digits("C", 64)), CodeRevisionNotAllowed},
		"the key provider":                  {revoking(RevokedKeyProvider, "00ff"), CodeKMSPolicyMismatch},
		"IDN-07 a coordinator's identity":   {func(e *exchange) { e.st.Group, e.st.Slot = "coordinator", "coordinator-0" }, CodeIdentityForbidden},
		"IDN-01 another free slot":          {func(e *exchange) { e.st.Slot = "db-7" }, CodeSlotMismatch},
		"another instance's revocation":     {revoking(RevokedInstance, digits("9", 40)), ""},
		"another revision's revocation":     {revoking(RevokedRevision, "newer"), ""},
		"another key provider's revocation": {revoking(RevokedKeyProvider, "00fe"), ""},
		"at the floor, approved, not revoked": {func(e *exchange) {
			e.sp.Floor, e.sp.RequireApproval = 7, true
			e.sp.Allowed[1].Number, e.sp.Allowed[1].Approved = 7, true
		}, ""},
	} {
		e := admissible()
		c.edit(&e)
		if d := e.appraise(); d.Code != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

func revoking(kind RevocationKind, id string) func(*exchange) {
	return func(e *exchange) { e.sp = e.sp.Revoking([]Revocation{{Kind: kind, ID: id, Reason: "because"}}) }
}

func TestATT32_TheEpochGrowsWhenAPolicyNarrows(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*SlotPolicy)
		want bool
	}{
		"nothing":                         {func(*SlotPolicy) {}, false},
		"one more revision":               {func(sp *SlotPolicy) { sp.Allowed = append(sp.Allowed, AllowedRevision{Revision: "newest"}) }, false},
		"one less that it does not run":   {func(sp *SlotPolicy) { sp.Allowed = sp.Allowed[1:] }, false},
		"the one that it runs":            {func(sp *SlotPolicy) { sp.Allowed = sp.Allowed[:1] }, true},
		"another hash of what it runs":    {func(sp *SlotPolicy) { sp.Allowed[1].ComposeHash = "x" }, true},
		"a number":                        {func(sp *SlotPolicy) { sp.Allowed[1].Number = 4 }, false},
		"an approval":                     {func(sp *SlotPolicy) { sp.Allowed[1].Approved = true }, false},
		"approval is required":            {func(sp *SlotPolicy) { sp.RequireApproval = true }, true},
		"the floor":                       {func(sp *SlotPolicy) { sp.Floor = 1 }, true},
		"another instance":                {func(sp *SlotPolicy) { sp.InstanceID = "x" }, true},
		"a revocation":                    {func(sp *SlotPolicy) { sp.Revoked = []Revocation{{Kind: RevokedKeyProvider, ID: "x"}} }, true},
		"another text for the revocation": {func(sp *SlotPolicy) { sp.Revoked = nil }, false},
	} {
		e := admissible()
		after := e.sp
		after.Allowed = append([]AllowedRevision(nil), e.sp.Allowed...)
		c.edit(&after)
		if got := Narrows(e.sp, after, "new"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	var before SlotPolicy
	if Narrows(before, admissible().sp, "") {
		t.Error("the first policy of a slot takes nothing away")
	}
	approved := admissible().sp
	approved.Allowed[1].Approved = true
	if !Narrows(approved, admissible().sp, "new") {
		t.Error("an approval that is taken back narrows")
	}
}

func TestParseRevocation(t *testing.T) {
	for name, want := range map[string]Revocation{
		"instance-0d": {Kind: RevokedInstance, ID: "0d"}, "key_provider-a-b": {Kind: RevokedKeyProvider, ID: "a-b"},
		"revision-0d": {Kind: RevokedRevision, ID: "0d"}, "instance-": {}, "peer-x": {}, "": {},
	} {
		if got, ok := ParseRevocation(name); got != want || ok != (want.ID != "") {
			t.Errorf("%q: %+v %v", name, got, ok)
		}
		if want.ID != "" && want.Name() != name {
			t.Errorf("%+v is named %q", want, want.Name())
		}
	}
}

// TestATT32_ABootIsRevokedByAnyOfItsNames: the names that a transaction checks for.
func TestATT32_ABootIsRevokedByAnyOfItsNames(t *testing.T) {
	c := Claims{ComposeHash: "0x" + strings.ToUpper(digits("c", 64)), KeyProviderID: "00FF"}
	got := strings.Join(RevokedAs("I1", "r1", c), " ")
	for _, want := range []Revocation{
		{Kind: RevokedInstance, ID: "I1"}, {Kind: RevokedInstance, ID: "i1"}, {Kind: RevokedRevision, ID: "r1"},
		{Kind: RevokedRevision, ID: digits("c", 64)}, {Kind: RevokedKeyProvider, ID: "00FF"}, {Kind: RevokedKeyProvider, ID: "00ff"},
	} {
		if !strings.Contains(" "+got+" ", " "+want.Name()+" ") {
			t.Errorf("%s is not among %s", want.Name(), got)
		}
	}
	if names := RevokedAs("i1", "r1", Claims{}); len(names) != 2 {
		t.Errorf("a name is checked twice: %q", names)
	}
	if names := RevokedAs("", "", Claims{}); len(names) != 0 {
		t.Errorf("nothing is named by %q", names)
	}
}

// TestATT32_ASlotPolicyInheritsFromItsGroup: the floor, approvals and revocations in force.
func TestATT32_ASlotPolicyInheritsFromItsGroup(t *testing.T) {
	e := admissible()
	gp := history(GroupPolicy{}, Asked{}, Known{Revision: "old", Content: "c1"}, Known{Revision: "new", Content: "c2", ComposeHash: digits("c", 64)})
	gp.RequireApproval, gp.Floor.Number = true, 2
	gp.Approvals = map[string]Approval{"new": {Revision: "new", ComposeHash: digits("c", 64)}}
	sp := e.sp.Under(gp, []Revocation{{Kind: RevokedRevision, ID: "elsewhere"}})
	if !sp.RequireApproval || sp.Floor != 2 || len(sp.Revoked) != 0 {
		t.Errorf("policy %+v", sp)
	}
	if old, now := sp.Allowed[0], sp.Allowed[1]; old.Approved || !now.Approved || old.Number != 1 || now.Number != 2 {
		t.Errorf("allowed %+v", sp.Allowed)
	}
	if e.sp.Allowed[1].Number != 0 {
		t.Error("the policy that was given is changed")
	}
	// A lifted revocation is gone: only the present ones apply.
	sp.Revoked = []Revocation{{Kind: RevokedRevision, ID: "new"}}
	if sp = sp.Under(gp, nil); sp.Revoked != nil {
		t.Errorf("revoked %+v", sp.Revoked)
	}
}

// TestATT25_AFloorSaysWhoseItIs: the record names the request, and an equal one changes nothing.
func TestATT25_AFloorSaysWhoseItIs(t *testing.T) {
	gp := history(GroupPolicy{}, Asked{}, known(1), known(2))
	gp = history(gp, Asked{Floor: &Floor{Number: 2, Reason: "leaked", By: "ann", At: noon}}, known(2))
	want := AcceptedFloor{Number: 2, Reason: "leaked", By: "ann", At: noon, Accepted: noon}
	if gp.Floor != want {
		t.Errorf("floor %+v", gp.Floor)
	}
	if gp = history(gp, Asked{FloorSeen: 2, Floor: &Floor{Number: 2, Reason: "again", By: "bob"}}, known(2)); gp.Floor != want {
		t.Errorf("floor %+v, accepted twice", gp.Floor)
	}
	if gp.Group != "db" || gp.Revisions[rev(1)].At != noon {
		t.Errorf("policy %+v", gp)
	}
}

// TestRevocationsOfAGroupAreOfItsRevisions, in the order of their names.
func TestRevocationsOfAGroupAreOfItsRevisions(t *testing.T) {
	target := known(2)
	target.ComposeHash = digits("d", 64)
	gp := history(GroupPolicy{}, Asked{Recorded: []Known{known(1)}, Revoked: []Revocation{
		{Kind: RevokedRevision, ID: rev(2)}, {Kind: RevokedRevision, ID: rev(7)}, {Kind: RevokedInstance, ID: rev(1)},
		{Kind: RevokedRevision, ID: digits("d", 64)}, {Kind: RevokedRevision, ID: rev(1)}, {Kind: RevokedRevision, ID: digits("e", 64)},
	}}, target)
	var got []string
	for _, r := range gp.Revoked {
		got = append(got, r.ID)
	}
	if want := rev(1) + " " + rev(2) + " " + digits("d", 64); strings.Join(got, " ") != want {
		t.Errorf("revoked %q, want %q", got, want)
	}
	if gp = history(gp, Asked{}, target); gp.Revoked != nil {
		t.Errorf("lifted, and still %+v", gp.Revoked)
	}
}
